# SPDX-License-Identifier: MIT
"""variants.py - the combinations of block size, inode size, type and features that matter."""
from dataclasses import dataclass

MB = 1 << 20


@dataclass
class Variant:
    name: str
    mkfs: list
    block: int = 4096
    inode: int = 256
    size: int = 256 * MB
    names: int = 2000
    has_journal: bool = True


def _ext4(name, *features, block=4096, inode=256, **kw):
    opts = ["-t", "ext4", "-b", str(block), "-I", str(inode)]
    if features:
        opts += ["-O", ",".join(features)]
    return Variant(name, opts, block, inode, has_journal="^has_journal" not in features, **kw)


def _old(name, kind, block, inode, **kw):
    return Variant(name, ["-t", kind, "-b", str(block), "-I", str(inode)], block, inode, has_journal=kind == "ext3", **kw)


VARIANTS = [
    _ext4("ext4-4k", names=50000),
    _ext4("ext4-2k", block=2048),
    _ext4("ext4-1k", block=1024, names=20000),
    _ext4("ext4-inode128", "^project", inode=128),
    _ext4("ext4-inode1024", inode=1024),
    _ext4("ext4-plain", "^metadata_csum", "^64bit", "uninit_bg"),
    _ext4("ext4-nocsum", "^metadata_csum", "^uninit_bg", "^64bit"),
    _ext4("ext4-csum-seed", "metadata_csum_seed"),
    _ext4("ext4-orphan-file", "orphan_file"),
    _ext4("ext4-no-orphan-file", "^orphan_file"),
    _ext4("ext4-meta-bg", "meta_bg", "^resize_inode"),
    _ext4("ext4-noflex", "^flex_bg"),
    _ext4("ext4-sparse-super2", "sparse_super2", "^resize_inode"),
    _ext4("ext4-nojournal", "^has_journal"),
    _ext4("ext4-noextents", "^extent", "^64bit"),
    _ext4("ext4-noindex", "^dir_index"),
    _ext4("ext4-largedir-1k", "large_dir", block=1024, names=30000),
    _ext4("ext4-nofiletype-1k", "^filetype", block=1024),
    _ext4("ext4-fastcommit", "fast_commit"),
    _ext4("ext4-mmp", "mmp"),
    _old("ext3-4k", "ext3", 4096, 256),
    _old("ext3-1k-128", "ext3", 1024, 128),
    _old("ext2-4k", "ext2", 4096, 256),
    _old("ext2-2k-128", "ext2", 2048, 128),
    _old("ext2-1k-128", "ext2", 1024, 128),
]

_QUICK_NAMES = ("ext4-2k", "ext4-1k", "ext4-plain", "ext4-inode128", "ext4-meta-bg", "ext4-nojournal", "ext4-noextents",
                "ext4-largedir-1k", "ext3-1k-128", "ext2-4k")
QUICK = [VARIANTS[0]] + [v for v in VARIANTS if v.name in _QUICK_NAMES]
