# SPDX-License-Identifier: MIT
"""tmpfile.py - what programs do with O_TMPFILE, each a function from a mounted directory to what came of it."""
import contextlib
import errno
import os
import subprocess

from backend import link_by_fd, link_by_proc
from populate import DEFAULT_ACL, pattern

RW = os.O_TMPFILE | os.O_RDWR


@contextlib.contextmanager
def opened(path, flags=RW, mode=0o666):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def acting_as(uid, gid, groups=()):
    old = os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(old)


@contextlib.contextmanager
def umask(mask):
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def result(func, *args):
    """What it returned, or the errno's name."""
    try:
        return func(*args)
    except OSError as e:
        return errno.errorcode[e.errno]


def view(what):
    st = os.fstat(what) if isinstance(what, int) else os.lstat(what)
    return oct(st.st_mode), st.st_nlink, st.st_uid, st.st_gid, st.st_size


def try_open(path, flags=RW):
    with opened(path, flags) as fd:
        return view(fd)


def written_and_named(link):
    def do(d):
        with opened(d) as fd:
            seen = [view(fd)]
            os.write(fd, pattern(1, 300000))
            os.fsync(fd)
            seen.append(view(fd))
            seen.append(os.pread(fd, 1000, 299500) == pattern(1, 300000)[299500:])
            os.ftruncate(fd, 250000)
            seen.append(os.listdir(d))
            link(fd, d + "/named")
            seen += [view(fd), view(d + "/named")]
            os.write(fd, b"more")
        with open(d + "/named", "rb") as f:
            seen.append(f.read() == pattern(1, 300000)[:250000] + bytes(50000) + b"more")
        return seen
    return do


def never_named(d):
    """What it took comes back. Inodes; of blocks the count is that of the allocator, but what is left over is seen by e2fsck."""
    before = os.statvfs(d).f_ffree
    with opened(d) as fd:
        os.write(fd, pattern(2, 5000000))
        during = os.statvfs(d).f_ffree
    return before - during, os.listdir(d)


def exclusive(d):
    with opened(d, RW | os.O_EXCL) as fd:
        os.write(fd, b"text")
        return view(fd), [result(link, fd, d + "/named") for link in (link_by_proc, link_by_fd)], os.listdir(d)


def name_that_is_taken(d):
    open(d + "/taken", "w").close()
    with opened(d) as fd:
        return result(link_by_proc, fd, d + "/taken"), result(link_by_proc, fd, d + "/free"), view(fd)


def named_unlinked_named(d):
    """Only the first name comes from nowhere."""
    with opened(d) as fd:
        link_by_proc(fd, d + "/a")
        link_by_proc(fd, d + "/b")
        seen = [view(fd)]
        os.unlink(d + "/a")
        os.unlink(d + "/b")
        return seen + [view(fd), result(link_by_proc, fd, d + "/c"), os.listdir(d)]


def unlinked_ordinary_file(d):
    with opened(d + "/f", os.O_RDWR | os.O_CREAT) as fd:
        os.unlink(d + "/f")
        return result(link_by_proc, fd, d + "/g")


def bad_flags(d):
    return [result(try_open, d, flags) for flags in
            (os.O_TMPFILE, RW | os.O_CREAT, os.O_TMPFILE & ~os.O_DIRECTORY | os.O_RDWR, os.O_TMPFILE | os.O_WRONLY)]


def bad_paths(d):
    open(d + "/file", "w").close()
    os.symlink("file", d + "/to_file")
    os.mkdir(d + "/dir")
    os.symlink("dir", d + "/to_dir")
    return ([result(try_open, d + "/" + name) for name in ("file", "missing", "to_file", "to_dir", "dir/")] +
            [result(try_open, d + "/to_dir", RW | os.O_NOFOLLOW)])


def write_only(d):
    with opened(d, os.O_TMPFILE | os.O_WRONLY) as fd:
        os.write(fd, b"text")
        with opened(f"/proc/self/fd/{fd}", os.O_RDONLY) as again:
            return result(os.read, fd, 1), os.read(again, 10), view(again)


def umask_and_mode(d):
    seen = []
    for mask, mode in ((0o022, 0o666), (0o077, 0o777), (0, 0o4755), (0o027, 0o1666)):
        with umask(mask), opened(d, RW, mode) as fd:
            seen.append(view(fd))
    return seen


def default_acl(d):
    os.setxattr(d, "system.posix_acl_default", DEFAULT_ACL)
    with umask(0o077), opened(d, RW, 0o640) as fd:
        link_by_proc(fd, d + "/named")
        return view(fd), os.getxattr(fd, "system.posix_acl_access"), os.listxattr(d + "/named")


def setgid_directory(d):
    os.chown(d, 0, 4321)
    os.chmod(d, 0o2777)
    seen = []
    for who in ((0, 0), (1000, 1000), (1000, 1000, (4321,)), (1000, 4321)):
        with umask(0), acting_as(*who), opened(d, RW, 0o2775) as fd:
            seen.append(view(fd))
    return seen


def others_directory(d):
    with acting_as(1000, 1000):
        return result(try_open, d)


def others_file(d):
    """Made and named by one who is not root."""
    os.chmod(d, 0o777)
    with acting_as(1000, 1001), opened(d, RW, 0o600) as fd:
        link_by_proc(fd, d + "/named")
        return view(fd), view(d + "/named")


def removed_directory(d):
    os.mkdir(d + "/gone")
    with opened(d + "/gone", os.O_RDONLY) as fd:
        os.rmdir(d + "/gone")
        return result(try_open, f"/proc/self/fd/{fd}")


def flagged_directories(d):
    seen = []
    for flag in "iaAdSD":
        os.mkdir(f"{d}/{flag}")
        subprocess.run(["chattr", "+" + flag, f"{d}/{flag}"], check=True)
        seen.append(result(try_open, f"{d}/{flag}"))
        if seen[-1] != "EPERM":
            with opened(f"{d}/{flag}") as fd:
                link_by_proc(fd, f"{d}/named_{flag}")
            seen.append(subprocess.run(["lsattr", f"{d}/named_{flag}"], check=True, stdout=subprocess.PIPE).stdout.split()[0])
        subprocess.run(["chattr", "-" + flag, f"{d}/{flag}"], check=True)
    return seen


def attributes_before_the_name(d):
    with opened(d) as fd:
        os.setxattr(fd, "user.a", b"x" * 700)
        os.fchmod(fd, 0o604)
        os.fchown(fd, 12, 34)
        os.posix_fallocate(fd, 0, 100000)
        os.utime(fd, ns=(10**18, 10**18 + 7))
        link_by_fd(fd, d + "/named")
    return view(d + "/named"), len(os.getxattr(d + "/named", "user.a")), os.lstat(d + "/named").st_mtime_ns


def times_of_directory(d):
    """Nothing happens to it before there is a name."""
    os.utime(d, ns=(10**18, 10**18))
    with opened(d) as fd:
        seen = [os.lstat(d).st_mtime_ns == 10**18]
        link_by_proc(fd, d + "/named")
    return seen + [os.lstat(d).st_mtime_ns == 10**18]


def many(d):
    """All open at once, every other one named, in no order: the list of those without names loses them in its middle."""
    fds = [os.open(d, RW, 0o600) for _ in range(200)]
    for i in (*range(0, 200, 4), *range(198, 0, -4)):
        os.write(fds[i], b"%d" % i)
        link_by_proc(fds[i], f"{d}/{i}")
    for fd in fds:
        os.close(fd)
    return sorted(os.listdir(d)), all(os.stat(f"{d}/{i}").st_size == len(str(i)) for i in range(0, 200, 2))


CASES = {
    "by_proc": written_and_named(link_by_proc), "by_fd": written_and_named(link_by_fd), "never_named": never_named,
    "exclusive": exclusive, "name_that_is_taken": name_that_is_taken, "named_unlinked_named": named_unlinked_named,
    "unlinked_ordinary_file": unlinked_ordinary_file, "bad_flags": bad_flags, "bad_paths": bad_paths,
    "write_only": write_only, "umask_and_mode": umask_and_mode, "default_acl": default_acl,
    "setgid_directory": setgid_directory, "others_directory": others_directory, "others_file": others_file,
    "removed_directory": removed_directory, "flagged_directories": flagged_directories,
    "attributes_before_the_name": attributes_before_the_name, "times_of_directory": times_of_directory, "many": many,
}


def run_all(top):
    """Each in a directory of its own below @top, which anybody may enter."""
    results = {}
    with umask(0o022):
        for name, func in CASES.items():
            os.mkdir(f"{top}/{name}")
            results[name] = func(f"{top}/{name}")
    return results


def on_read_only(top):
    return result(try_open, top), result(try_open, top + "/by_proc/named")
