# SPDX-License-Identifier: MIT
"""tree.py - everything that can be read of a tree, and the differences between two."""
import errno
import hashlib
import os
import stat

from report import Failure

CHUNK = 1 << 20


def data_ranges(be, path, size):
    """Where SEEK_DATA and SEEK_HOLE say that data is. Asked before anything is read: cached pages count as data."""
    ranges = []
    pos = 0
    while pos < size:
        try:
            data = be.seek(path, pos, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            break
        pos = be.seek(path, data, os.SEEK_HOLE)
        ranges.append((data, pos))
    return tuple(ranges)


def content_and_ranges(be, path, size, want_ranges):
    """Hash of the data with its positions; without @want_ranges that alone, whatever was written as zeros or left out."""
    h = hashlib.sha256()
    ranges = data_ranges(be, path, size)
    for start, end in ranges:
        pos = start
        while pos < end:
            step = min(CHUNK, end - pos)
            got = be.read(path, pos, step)
            if not got:
                raise Failure(f"{path}: read at {pos} of {size} gave nothing")
            hash_nonzero(h, pos, got)
            pos += len(got)
    return h.hexdigest(), ranges if want_ranges else None


def hash_nonzero(h, pos, data):
    """Zero bytes do not count, so that a file written sparse or full hashes alike; the unit is the smallest block."""
    for off in range(0, len(data), 1024):
        piece = data[off:off + 1024]
        if piece.strip(b"\0"):
            h.update((pos + off).to_bytes(8, "little"))
            h.update(piece)


def describe(be, path, st, holes, times):
    d = {"mode": oct(st.mode), "uid": st.uid, "gid": st.gid, "nlink": st.nlink}
    if times:
        d["mtime"] = st.mtime_ns
    if stat.S_ISREG(st.mode):
        d["size"] = st.size
        d["content"], d["data"] = content_and_ranges(be, path, st.size, holes)
    elif stat.S_ISLNK(st.mode):
        d["target"] = be.readlink(path)
    elif stat.S_ISCHR(st.mode) or stat.S_ISBLK(st.mode):
        d["rdev"] = st.rdev
    try:
        d["xattrs"] = {n: be.getxattr(path, n) for n in be.listxattr(path) if not n.startswith("security.selinux")}
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EPERM):
            raise
    return d


def snapshot(be, holes=True, times=True, skip=("lost+found",)):
    """{path: description}; hard links are told by the first name of the same inode, and asked for holes by that alone."""
    out, first = {}, {}
    todo = [b""]
    while todo:
        d = todo.pop()
        for name in be.readdir(d):
            path = os.path.join(d, name) if d else name
            if os.fsdecode(path) in skip:
                continue
            st = be.lstat(path)
            is_first = stat.S_ISDIR(st.mode) or first.setdefault(st.ino, path) == path
            desc = describe(be, path, st, holes and is_first, times)
            if not stat.S_ISDIR(st.mode):
                desc["same_as"] = first[st.ino]
            out[path] = desc
            if stat.S_ISDIR(st.mode):
                todo.append(path)
    st = be.lstat(b"")
    out[b""] = describe(be, b"", st, holes, False)
    return out


def compare(a, b, name_a, name_b):
    """Raises Failure with the first differences."""
    lines = []
    for path in sorted(set(a) | set(b)):
        shown = os.fsdecode(path) or "/"
        if path not in a:
            lines.append(f"{shown}: only in {name_b}")
        elif path not in b:
            lines.append(f"{shown}: only in {name_a}")
        else:
            for key in sorted(set(a[path]) | set(b[path])):
                va, vb = a[path].get(key), b[path].get(key)
                if va != vb:
                    lines.append(f"{shown}: {key}: {name_a} {str(va)[:200]}, {name_b} {str(vb)[:200]}")
    if lines:
        raise Failure("\n".join(lines[:20] + ([f"... and {len(lines) - 20} more"] if len(lines) > 20 else [])))
