# SPDX-License-Identifier: MIT
"""populate.py - one tree with everything in it that a file system may get wrong, made the same through any backend."""
import errno
import os
import random
import stat
import struct

from backend import FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE

DAY = 86400 * 10**9
# 1901-12-14, 1969-12-31, 2038-01-20, 2106-02-08, 2446-05-10: each side of each limit of the encodings.
TIMES_WIDE = [-2147400000, -1, 0, 2147483647, 2147565600, 4294967296 + 86400, 15032385535 - 86400]
TIMES_NARROW = [-2147400000, -1, 0, 1, 2147483647]


def pattern(seed, length):
    """Bytes that no other seed gives, without long zero runs."""
    unit = struct.pack("<Q", (seed * 0x9E3779B97F4A7C15 + 1) & 0xffffffffffffffff) + b"uext4!\n."
    return (unit * (length // len(unit) + 1))[:length]


def make_file(be, path, pieces, size=None):
    be.create(path)
    for pos, data in pieces:
        be.write(path, pos, data)
    if size is not None:
        be.truncate(path, size)


def files(be, block, scale):
    be.mkdir("files")
    make_file(be, "files/empty", [])
    for n in (1, 59, 60, block - 1, block, block + 1, 3 * block + 7, 100000, 1 << 20):
        make_file(be, f"files/size{n}", [(0, pattern(n, n))])
    make_file(be, "files/sparse", [(0, b"head"), (10 * block + 3, b"middle"), (1 << 30, b"tail")])
    make_file(be, "files/allhole", [], size=123456789)
    make_file(be, "files/trailing_hole", [(0, pattern(7, 5 * block))], size=40 * block + 5)
    be.create("files/fragmented")
    for i in range(0, 800 * scale, 2):
        be.write("files/fragmented", i * block, pattern(i, block))
    be.create("files/filled_in")
    for i in list(range(0, 400, 2)) + list(range(1, 400, 2)):
        be.write("files/filled_in", i * block, pattern(i, block))
    make_file(be, "files/big", [(i << 20, pattern(i, 1 << 20)) for i in range(8 * scale)])


def preallocated(be, block):
    be.create("files/unwritten")
    try:
        be.fallocate("files/unwritten", 0, 0, 64 * block)
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        be.unlink("files/unwritten")
        return
    be.write("files/unwritten", 10 * block + 5, pattern(3, 3 * block))
    make_file(be, "files/punched", [(0, pattern(5, 100 * block))])
    be.fallocate("files/punched", FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10 * block + 100, 30 * block)
    make_file(be, "files/keep_size", [(0, b"x" * 10)])
    be.fallocate("files/keep_size", FALLOC_KEEP_SIZE, 0, 1 << 20)


def directories(be, names):
    be.mkdir("dirs")
    path = "dirs/deep"
    be.mkdir(path)
    for i in range(30):
        path += f"/level{i}"
        be.mkdir(path)
    make_file(be, path + "/bottom", [(0, b"found\n")])
    be.mkdir("dirs/empty")
    be.mkdir("dirs/many")
    for i in range(names):
        be.create(f"dirs/many/name-{i:07d}-{'x' * (i % 40)}")
    for i in range(0, names, 7):
        be.unlink(f"dirs/many/name-{i:07d}-{'x' * (i % 40)}")
    be.mkdir("dirs/long")
    for i in range(60):
        be.create("dirs/long/" + f"{i:03d}" + "n" * 252)
    be.mkdir("dirs/unicode")
    for name in ("grün", "日本語", "emoji-🙂", "spa ce", "new\nline", "-dash", "\u00ff\u0100"):
        be.create("dirs/unicode/" + name)
    be.mkdir("dirs/setgid", 0o2775)
    be.chmod("dirs/setgid", 0o2775)
    be.chown("dirs/setgid", -1, 4242)
    be.chmod("dirs/setgid", 0o2775)
    be.create("dirs/setgid/file")
    be.mkdir("dirs/setgid/sub")


def links_and_nodes(be):
    be.mkdir("nodes")
    make_file(be, "nodes/target", [(0, b"linked\n")])
    for i in range(20):
        be.link("nodes/target", f"nodes/hard{i}")
    for n in (1, 59, 60, 61, 255, 1000):
        be.symlink("t" * n, f"nodes/sym{n}")
    be.symlink("../files/size1", "nodes/good_link")
    be.mknod("nodes/fifo", stat.S_IFIFO | 0o640)
    be.mknod("nodes/sock", stat.S_IFSOCK | 0o600)
    if os.geteuid() == 0:
        be.mknod("nodes/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        be.mknod("nodes/bigdev", stat.S_IFBLK | 0o660, os.makedev(300, 70000))
        be.create("nodes/far_owner")
        be.chown("nodes/far_owner", 100000, 200000)


def acl(entries):
    """The wire form of system.posix_acl_*."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


UNDEF = 0xffffffff
ACCESS_ACL = acl([(1, 6, UNDEF), (2, 7, 1000), (4, 4, UNDEF), (8, 5, 1001), (16, 7, UNDEF), (32, 4, UNDEF)])
DEFAULT_ACL = acl([(1, 7, UNDEF), (2, 5, 1000), (4, 5, UNDEF), (16, 5, UNDEF), (32, 0, UNDEF)])


def xattrs(be, block):
    be.mkdir("xattrs")
    for i, n in enumerate((0, 1, 20, 60, 200, block // 4)):
        be.create(f"xattrs/one{i}")
        be.setxattr(f"xattrs/one{i}", "user.value", pattern(n + 1, n))
    be.create("xattrs/several")
    for i in range(12):
        be.setxattr("xattrs/several", f"user.name{i}", pattern(i, 7 * i))
    for i in range(0, 12, 3):
        be.removexattr("xattrs/several", f"user.name{i}")
    be.setxattr("xattrs/several", "user.name1", b"replaced by something longer than it was before")
    be.create("xattrs/two_places")
    be.setxattr("xattrs/two_places", "user.large", pattern(9, block // 2))
    be.setxattr("xattrs/two_places", "user.small", b"s")
    if os.geteuid() == 0:
        be.setxattr("xattrs/several", "trusted.secret", b"t" * 30)
        be.setxattr("xattrs/several", "security.test", b"s" * 10)
    try:
        be.create("xattrs/acl")
        be.setxattr("xattrs/acl", "system.posix_acl_access", ACCESS_ACL)
        be.mkdir("xattrs/acl_dir")
        be.setxattr("xattrs/acl_dir", "system.posix_acl_default", DEFAULT_ACL)
        be.create("xattrs/acl_dir/inherits")
        be.mkdir("xattrs/acl_dir/inherits_too")
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise


def times(be, wide):
    be.mkdir("times")
    for i, sec in enumerate(TIMES_WIDE if wide else TIMES_NARROW):
        be.create(f"times/t{i}")
        nsec = 123456789 if wide else 0
        be.utimens(f"times/t{i}", sec * 10**9, sec * 10**9 + nsec)


def populate(be, block=4096, inode_bytes=256, names=2000, scale=1):
    files(be, block, scale)
    preallocated(be, block)
    directories(be, names)
    links_and_nodes(be)
    xattrs(be, block)
    times(be, inode_bytes > 128)


def mutate(be, seed, block=4096):
    """Changes of every kind to a populated tree, different for each seed."""
    rng = random.Random(seed)
    top = f"round{seed}"
    be.mkdir(top)
    for i in range(200):
        make_file(be, f"{top}/f{i}", [(rng.randrange(0, 8 * block), pattern(i + seed, rng.randrange(1, 4 * block)))])
    for i in range(0, 200, 3):
        be.unlink(f"{top}/f{i}")
    for i in range(1, 200, 3):
        be.rename(f"{top}/f{i}", f"{top}/renamed{i}")
    for i in range(2, 200, 6):
        be.truncate(f"{top}/f{i}", rng.randrange(0, 10 * block))
    base = "files/filled_in"
    for _ in range(30):
        n = rng.randrange(1, 3 * block)
        be.write(base, rng.randrange(0, 390 * block), pattern(seed * 1000 + n, n))
    be.truncate("files/fragmented", rng.randrange(100, 700) * block + 17)
    be.write("files/fragmented", 700 * block, pattern(seed, 5 * block))
    many = be.readdir("dirs/many")
    for name in rng.sample(many, min(len(many), 300)):
        be.unlink(b"dirs/many/" + name)
    for i in range(400):
        be.create(f"dirs/many/round{seed}-{i}")
    be.setxattr("xattrs/several", f"user.round{seed % 4}", pattern(seed, rng.randrange(1, block // 32)))  # four fit a block
    be.mkdir(f"dirs/moved{seed}")
    be.mkdir(f"dirs/moved{seed}/inside")
    be.rename(f"dirs/moved{seed}", f"{top}/moved")
    be.link("nodes/target", f"{top}/another_link")
    be.symlink(f"to round {seed}", f"{top}/sym")
