# SPDX-License-Identifier: MIT
"""backend.py - one set of file operations over a mounted directory (kernel or FUSE) and over the library in-process.

Paths are relative to the root. Failures are OSError with the errno, from both.
"""
import ctypes
import os
import stat as st_mod

from image import BUILD

FALLOC_KEEP_SIZE = 1
FALLOC_PUNCH_HOLE = 2
FALLOC_COLLAPSE = 8
FALLOC_ZERO = 16
FALLOC_INSERT = 32

AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x1000

_libc = ctypes.CDLL(None, use_errno=True)


def _linkat(fd, old, new, flags):
    if _libc.linkat(fd, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def link_by_proc(fd, new):
    _linkat(AT_FDCWD, f"/proc/self/fd/{fd}", new, AT_SYMLINK_FOLLOW)


def link_by_fd(fd, new):
    _linkat(fd, "", new, AT_EMPTY_PATH)


class Stat:
    FIELDS = ("mode", "nlink", "uid", "gid", "rdev", "size", "blocks", "mtime_ns", "atime_ns", "ctime_ns", "ino")

    def __init__(self, **kw):
        self.__dict__.update(kw)


class OsBackend:
    """A mounted file system."""

    def __init__(self, root):
        self.root = root

    def _p(self, path):
        return os.path.join(os.fsencode(self.root), os.fsencode(path)) if path else os.fsencode(self.root)

    def close(self):
        pass

    def create(self, path, mode=0o644):
        os.close(os.open(self._p(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

    def tmpfile(self, path, mode, data, name):
        """A file without a name in the directory @path, its first contents, then @name."""
        fd = os.open(self._p(path), os.O_TMPFILE | os.O_WRONLY, mode)
        try:
            os.write(fd, data)
            link_by_proc(fd, self._p(name))
        finally:
            os.close(fd)

    def write(self, path, pos, data):
        fd = os.open(self._p(path), os.O_WRONLY)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], pos + done)
            return done
        finally:
            os.close(fd)

    def read(self, path, pos, length):
        fd = os.open(self._p(path), os.O_RDONLY)
        try:
            return os.pread(fd, length, pos)
        finally:
            os.close(fd)

    def truncate(self, path, size):
        os.truncate(self._p(path), size)

    def fallocate(self, path, mode, pos, length):
        fd = os.open(self._p(path), os.O_WRONLY)
        try:
            if _libc.fallocate(fd, mode, ctypes.c_long(pos), ctypes.c_long(length)):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)

    def fsync(self, path, datasync=False):
        fd = os.open(self._p(path), os.O_RDONLY)
        try:
            (os.fdatasync if datasync else os.fsync)(fd)
        finally:
            os.close(fd)

    def seek(self, path, pos, whence):
        fd = os.open(self._p(path), os.O_RDONLY)
        try:
            return os.lseek(fd, pos, whence)
        finally:
            os.close(fd)

    def mkdir(self, path, mode=0o755):
        os.mkdir(self._p(path), mode)

    def mknod(self, path, mode, rdev=0):
        os.mknod(self._p(path), mode, rdev)

    def symlink(self, target, path):
        os.symlink(os.fsencode(target), self._p(path))

    def link(self, old, new):
        os.link(self._p(old), self._p(new), follow_symlinks=False)

    def unlink(self, path):
        os.unlink(self._p(path))

    def rmdir(self, path):
        os.rmdir(self._p(path))

    def rename(self, old, new, flags=0):
        if not flags:
            os.rename(self._p(old), self._p(new))
        elif _libc.renameat2(-100, self._p(old), -100, self._p(new), flags):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def readlink(self, path):
        return os.readlink(self._p(path))

    def readdir(self, path):
        return sorted(os.listdir(self._p(path)))

    def lstat(self, path):
        s = os.lstat(self._p(path))
        return Stat(mode=s.st_mode, nlink=s.st_nlink, uid=s.st_uid, gid=s.st_gid, rdev=s.st_rdev, size=s.st_size,
                    blocks=s.st_blocks, mtime_ns=s.st_mtime_ns, atime_ns=s.st_atime_ns, ctime_ns=s.st_ctime_ns,
                    ino=s.st_ino)

    def chmod(self, path, mode):
        os.chmod(self._p(path), mode)

    def chown(self, path, uid, gid):
        os.chown(self._p(path), uid, gid, follow_symlinks=False)

    def utimens(self, path, atime_ns, mtime_ns):
        os.utime(self._p(path), ns=(atime_ns, mtime_ns), follow_symlinks=False)

    def setxattr(self, path, name, value, flags=0):
        os.setxattr(self._p(path), name, value, flags, follow_symlinks=False)

    def getxattr(self, path, name):
        return os.getxattr(self._p(path), name, follow_symlinks=False)

    def listxattr(self, path):
        return sorted(os.listxattr(self._p(path), follow_symlinks=False))

    def removexattr(self, path, name):
        os.removexattr(self._p(path), name, follow_symlinks=False)

    def sync(self):
        fd = os.open(self.root, os.O_RDONLY)
        try:
            if _libc.syncfs(fd):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)


class _Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_int64), ("nsec", ctypes.c_int64)]

    def ns(self):
        return self.sec * 1000000000 + self.nsec

    @classmethod
    def of(cls, ns):
        return cls(ns // 1000000000, ns % 1000000000)


class _Attr(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_uint64) for n in ("ino", "size", "blocks")] +
                [(n, ctypes.c_uint32) for n in ("mode", "nlink", "uid", "gid", "block_bytes", "generation", "flags", "projid")] +
                [("rdev", ctypes.c_uint64)] +
                [(n, _Timespec) for n in ("atime", "mtime", "ctime", "crtime")])


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class _Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("mount_options", ctypes.c_char_p), ("log", _LOG),
                ("log_arg", ctypes.c_void_p), ("check_permissions", ctypes.c_bool)]


class _Cred(ctypes.Structure):
    _fields_ = [("uid", ctypes.c_uint32), ("gid", ctypes.c_uint32), ("groups", ctypes.c_void_p),
                ("group_count", ctypes.c_uint32), ("umask", ctypes.c_uint32)]


class _Dirent(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("type", ctypes.c_uint8), ("name_len", ctypes.c_uint8),
                ("name", ctypes.c_char_p), ("next_cookie", ctypes.c_uint64)]


_EMIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Dirent))

SET_MODE, SET_UID, SET_GID, SET_SIZE, SET_ATIME, SET_MTIME = 1, 2, 4, 8, 16, 32


def _library():
    lib = ctypes.CDLL(os.path.join(BUILD, "src/api/libuext4.so"))
    for name in ("uext4_pread", "uext4_pwrite", "uext4_write", "uext4_lseek", "uext4_getxattr", "uext4_listxattr"):
        getattr(lib, name).restype = ctypes.c_ssize_t
    return lib


class LibBackend:
    """An image through libuext4 in this process."""

    def __init__(self, image, options="", on_log=None):
        self.lib = _library()
        self.log = []
        self._log_cb = _LOG(lambda arg, level, text: self.log.append((level, text.decode(errors="replace"))))
        opt = _Options(ctypes.sizeof(_Options), options.encode() or None, self._log_cb, None, False)
        self.fs = ctypes.c_void_p()
        self._check(self.lib.uext4_open_fs(os.fsencode(image), ctypes.byref(opt), ctypes.byref(self.fs)))
        mask = os.umask(0)
        os.umask(mask)
        self.cred = ctypes.byref(_Cred(os.geteuid(), os.getegid(), None, 0, mask))

    def _check(self, ret):
        if ret < 0:
            text = self.log[-1][1] if self.log else os.strerror(-ret)
            raise OSError(-ret, text)
        return ret

    def close(self):
        fs, self.fs = self.fs, None
        self._check(self.lib.uext4_close_fs(fs))

    def _open(self, path, flags, mode=0):
        f = ctypes.c_void_p()
        self._check(self.lib.uext4_open(self.fs, self.cred, os.fsencode(path), flags, mode, ctypes.byref(f)))
        return f

    def _with(self, path, flags, func):
        f = self._open(path, flags)
        try:
            return self._check(func(f))
        finally:
            self._check(self.lib.uext4_close(f))

    def create(self, path, mode=0o644):
        self._check(self.lib.uext4_close(self._open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)))

    def tmpfile(self, path, mode, data, name):
        f = self._open(path or "/", os.O_TMPFILE | os.O_WRONLY, mode)
        try:
            self._check(self.lib.uext4_write(f, data, ctypes.c_size_t(len(data))))
            self._check(self.lib.uext4_link_file(f, self.cred, os.fsencode(name)))
        finally:
            self._check(self.lib.uext4_close(f))

    def write(self, path, pos, data):
        def all_of(f):
            done = 0
            while done < len(data):
                got = self.lib.uext4_pwrite(f, data[done:], ctypes.c_size_t(len(data) - done), ctypes.c_int64(pos + done))
                if got < 0:
                    return got
                done += got
            return done
        return self._with(path, os.O_WRONLY, all_of)

    def read(self, path, pos, length):
        buf = ctypes.create_string_buffer(max(length, 1))
        got = self._with(path, os.O_RDONLY,
                         lambda f: self.lib.uext4_pread(f, buf, ctypes.c_size_t(length), ctypes.c_int64(pos)))
        return buf.raw[:got]

    def truncate(self, path, size):
        self._check(self.lib.uext4_truncate(self.fs, self.cred, os.fsencode(path), ctypes.c_int64(size)))

    def fallocate(self, path, mode, pos, length):
        self._with(path, os.O_WRONLY,
                   lambda f: self.lib.uext4_fallocate(f, mode, ctypes.c_int64(pos), ctypes.c_int64(length)))

    def fsync(self, path, datasync=False):
        self._with(path, os.O_RDONLY, self.lib.uext4_fdatasync if datasync else self.lib.uext4_fsync)

    def seek(self, path, pos, whence):
        return self._with(path, os.O_RDONLY, lambda f: self.lib.uext4_lseek(f, ctypes.c_int64(pos), whence))

    def mkdir(self, path, mode=0o755):
        self._check(self.lib.uext4_mkdir(self.fs, self.cred, os.fsencode(path), mode))

    def mknod(self, path, mode, rdev=0):
        self._check(self.lib.uext4_mknod(self.fs, self.cred, os.fsencode(path), mode, ctypes.c_uint64(rdev)))

    def symlink(self, target, path):
        self._check(self.lib.uext4_symlink(self.fs, self.cred, os.fsencode(target), os.fsencode(path)))

    def link(self, old, new):
        self._check(self.lib.uext4_link(self.fs, self.cred, os.fsencode(old), os.fsencode(new)))

    def unlink(self, path):
        self._check(self.lib.uext4_unlink(self.fs, self.cred, os.fsencode(path)))

    def rmdir(self, path):
        self._check(self.lib.uext4_rmdir(self.fs, self.cred, os.fsencode(path)))

    def rename(self, old, new, flags=0):
        self._check(self.lib.uext4_rename(self.fs, self.cred, os.fsencode(old), os.fsencode(new), flags))

    def readlink(self, path):
        buf = ctypes.create_string_buffer(65536)
        self._check(self.lib.uext4_readlink(self.fs, self.cred, os.fsencode(path), buf, ctypes.c_size_t(len(buf))))
        return buf.value

    def readdir(self, path):
        names = []

        def emit(arg, entry):
            if entry.contents.name not in (b".", b".."):
                names.append(entry.contents.name)
            return 0
        self._check(self.lib.uext4_readdir(self.fs, self.cred, os.fsencode(path) or b"/", _EMIT(emit), None))
        return sorted(names)

    def lstat(self, path):
        a = _Attr()
        self._check(self.lib.uext4_lstat(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.byref(a)))
        return Stat(mode=a.mode, nlink=a.nlink, uid=a.uid, gid=a.gid, rdev=a.rdev, size=a.size, blocks=a.blocks,
                    mtime_ns=a.mtime.ns(), atime_ns=a.atime.ns(), ctime_ns=a.ctime.ns(), ino=a.ino)

    def _setattr(self, path, follow, which, **fields):
        self._check(self.lib.uext4_setattr(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.c_bool(follow),
                                           ctypes.byref(_Attr(**fields)), which))

    def chmod(self, path, mode):
        self._setattr(path, True, SET_MODE, mode=mode)

    def chown(self, path, uid, gid):
        if uid == gid == -1:
            uid = self.lstat(path).uid  # chown(2) that changes neither still drops setuid
        which = (SET_UID if uid != -1 else 0) | (SET_GID if gid != -1 else 0)
        self._setattr(path, False, which, uid=uid & 0xffffffff, gid=gid & 0xffffffff)

    def utimens(self, path, atime_ns, mtime_ns):
        self._setattr(path, False, SET_ATIME | SET_MTIME, atime=_Timespec.of(atime_ns), mtime=_Timespec.of(mtime_ns))

    def setxattr(self, path, name, value, flags=0):
        self._check(self.lib.uext4_setxattr(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.c_bool(False), name.encode(),
                                            value, ctypes.c_size_t(len(value)), flags))

    def getxattr(self, path, name):
        buf = ctypes.create_string_buffer(65536)
        got = self._check(self.lib.uext4_getxattr(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.c_bool(False),
                                                  name.encode(), buf, ctypes.c_size_t(len(buf))))
        return buf.raw[:got]

    def listxattr(self, path):
        buf = ctypes.create_string_buffer(65536)
        got = self._check(self.lib.uext4_listxattr(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.c_bool(False), buf,
                                                   ctypes.c_size_t(len(buf))))
        return sorted(n.decode() for n in buf.raw[:got].split(b"\0") if n)

    def removexattr(self, path, name):
        self._check(self.lib.uext4_removexattr(self.fs, self.cred, os.fsencode(path) or b"/", ctypes.c_bool(False),
                                               name.encode()))

    def sync(self):
        self._check(self.lib.uext4_sync(self.fs))


def is_reg(st):
    return st_mod.S_ISREG(st.mode)
