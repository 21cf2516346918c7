# SPDX-License-Identifier: MIT
"""ops.py - seeded random operations, applied to two backends whose results must agree."""
import errno
import os
import random
import stat

from backend import FALLOC_COLLAPSE, FALLOC_INSERT, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO
from populate import DEFAULT_ACL, ACCESS_ACL, pattern
from report import Failure

BLOCK = 4096
NAMES = [f"n{i}" for i in range(12)] + ["long" + "x" * 251, "dot.name", "sp ace"]
DIRS = ["", "d0", "d1", "d0/s0", "d0/s1", "d1/s0"]
DATA_OPS = ("read", "write", "truncate", "fallocate", "seek", "fsync")


class Generator:
    """Operations as (name, args); most on names that exist or just might."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.n = 0

    def start(self):
        """The first operations: directories that are never removed."""
        return [("mkdir", d, 0o755) for d in DIRS[1:]]

    def path(self):
        r = self.rng
        return os.path.join(r.choice(DIRS[:3] if r.random() < 0.8 else DIRS), r.choice(NAMES[:5] if r.random() < 0.8 else NAMES))

    def other_path(self):
        """For what is no regular file: seldom where those are, or soon there would be few to read and write."""
        r = self.rng
        return self.path() if r.random() < 0.1 else os.path.join(r.choice(DIRS[:3]), r.choice(NAMES[5:]))

    def dir(self):
        return self.rng.choice(DIRS[3:])

    def rename_paths(self):
        """Files among each other, the rest among each other, and now and then one into the other's place."""
        r = self.rng.random()
        kinds = (self.path, self.path) if r < 0.6 else (self.other_path, self.dir) if r < 0.95 else (self.path, self.dir)
        return (self.rng.choice(kinds)(), self.rng.choice(kinds)())

    def pos(self):
        r = self.rng
        return r.choice([0, r.randrange(0, 64), r.randrange(0, 40) * BLOCK, r.randrange(0, 200000), r.randrange(0, 1 << 22)])

    def length(self):
        r = self.rng
        return r.choice([1, r.randrange(1, 100), BLOCK, r.randrange(1, 3 * BLOCK), r.randrange(1, 100000)])

    def data(self):
        self.n += 1
        return pattern(self.n, self.length())

    def next(self):
        r = self.rng
        kind = r.choices(list(self.TABLE), [w for w, _ in self.TABLE.values()])[0]
        return (kind,) + self.TABLE[kind][1](self)

    TABLE = {
        "create": (12, lambda g: (g.path(), g.rng.choice([0o644, 0o600, 0o4755, 0o2755, 0o666]))),
        "write": (24, lambda g: (g.path(), g.pos(), g.data())),
        "read": (10, lambda g: (g.path(), g.pos(), g.length())),
        "truncate": (8, lambda g: (g.path(), g.pos())),
        "fallocate": (10, lambda g: (g.path(), g.rng.choice([0, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE,
                                                            FALLOC_ZERO, FALLOC_ZERO | FALLOC_KEEP_SIZE, FALLOC_COLLAPSE,
                                                            FALLOC_INSERT, FALLOC_PUNCH_HOLE])) + g.alloc_range()),
        "mkdir": (6, lambda g: (g.rng.choice([g.dir(), g.dir(), g.dir(), g.other_path()]), g.rng.choice([0o755, 0o2775, 0o1777]))),
        "rmdir": (3, lambda g: (g.rng.choice([g.dir(), g.other_path()]),)),
        "unlink": (5, lambda g: (g.path(),)),
        "link": (4, lambda g: (g.path(), g.path())),
        "symlink": (3, lambda g: ("t" * g.rng.choice([1, 59, 60, 61, 300]), g.other_path())),
        "mknod": (2, lambda g: (g.other_path(), g.rng.choice([stat.S_IFIFO | 0o600, stat.S_IFSOCK | 0o600, stat.S_IFCHR | 0o600]),
                                g.rng.choice([0x103, os.makedev(400, 70000)]))),
        "tmpfile": (3, lambda g: (g.rng.choice(DIRS[:3]), g.rng.choice([0o644, 0o600, 0o4755, 0o2755]), g.data(), g.path())),
        "rename": (10, lambda g: g.rename_paths() + (g.rng.choice([0, 0, 0, 1, 2, 3, 4]),)),
        "readlink": (2, lambda g: (g.other_path(),)),
        "readdir": (4, lambda g: (g.rng.choice(DIRS),)),
        "lstat": (6, lambda g: (g.rng.choice([g.path(), g.dir()]),)),
        "chmod": (4, lambda g: (g.path(), g.rng.choice([0o644, 0o4755, 0o2711, 0o777, 0]))),
        "chown": (3, lambda g: (g.path(), g.rng.choice([-1, 0, 1000, 100000]), g.rng.choice([-1, 0, 2000, 200000]))),
        "utimens": (3, lambda g: (g.path(), g.rng.randrange(-10**9, 10**10) * 10**9 + g.rng.randrange(10**9),
                                  g.rng.randrange(-10**9, 10**10) * 10**9 + g.rng.randrange(10**9))),
        "setxattr": (6, lambda g: (g.rng.choice([g.path(), g.dir()]), g.xattr_name(), g.xattr_value(), g.rng.choice([0, 0, 1, 2]))),
        "getxattr": (3, lambda g: (g.path(), g.xattr_name())),
        "listxattr": (2, lambda g: (g.path(),)),
        "removexattr": (3, lambda g: (g.path(), g.xattr_name())),
        "acl": (2, lambda g: (g.rng.choice([g.path(), g.dir()]), g.rng.choice(["access", "default"]))),
        "seek": (5, lambda g: (g.path(), g.pos(), g.rng.choice([os.SEEK_DATA, os.SEEK_HOLE]))),
        "fsync": (2, lambda g: (g.path(), g.rng.choice([False, True]))),
        "sync": (1, lambda g: ()),
    }

    def alloc_range(self):
        if self.rng.random() < 0.5:
            return (self.rng.randrange(0, 60) * BLOCK, self.rng.randrange(1, 20) * BLOCK)
        return (self.pos(), self.length())

    def xattr_name(self):
        return self.rng.choice(["user.a", "user.bb", "user." + "c" * 50, "trusted.t", "security.s", "user.", "bogus.x"])

    def xattr_value(self):
        self.n += 1
        return pattern(self.n, self.rng.choice([0, 1, 10, 60, 200, 1500, 3900, 5000]))


def apply(be, op):
    """The result, or the errno."""
    name, args = op[0], op[1:]
    try:
        if name in DATA_OPS and is_special(be, args[0], name == "seek"):
            return "not a file"  # opening a fifo waits, a device is the kernel's; seeking in a directory means cookies
        if name == "lstat":
            return stat_view(be.lstat(*args))
        if name == "acl":
            return be.setxattr(args[0], f"system.posix_acl_{args[1]}", ACCESS_ACL if args[1] == "access" else DEFAULT_ACL)
        result = getattr(be, name)(*args)
        # What counts as data over preallocated blocks depends on what is cached; trees are compared by it later.
        return "a position" if name == "seek" else result
    except OSError as e:
        if name == "seek" and e.errno == errno.ENXIO and args[1] < be.lstat(args[0]).size:
            return "a position"
        return errno.errorcode.get(e.errno, e.errno)


def is_special(be, path, dirs_too):
    mode = be.lstat(path).mode
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and not dirs_too))


def stat_view(st):
    view = {"mode": oct(st.mode), "nlink": st.nlink, "uid": st.uid, "gid": st.gid}
    if not stat.S_ISDIR(st.mode):
        view["size"] = st.size
        view["rdev"] = st.rdev
    return view


def script(op):
    return f"{op[0]}({', '.join(repr(a) if not isinstance(a, bytes) or len(a) < 40 else f'<{len(a)} bytes>' for a in op[1:])})"


def run_pair(a, b, name_a, name_b, ops, verify=None, every=2000):
    """Applies @ops to both; raises Failure naming the first operation that differs."""
    for i, op in enumerate(ops):
        ra, rb = apply(a, op), apply(b, op)
        if ra != rb:
            raise Failure(f"operation {i}: {script(op)}\n  {name_a}: {show(ra)}\n  {name_b}: {show(rb)}")
        if verify and i % every == every - 1:
            verify(i)


def show(result):
    text = repr(result)
    return text if len(text) < 400 else text[:400] + "..."
