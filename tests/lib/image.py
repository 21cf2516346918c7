# SPDX-License-Identifier: MIT
"""image.py - images, and the three who look at them: the kernel, uext4, e2fsck."""
import contextlib
import os
import shutil
import subprocess
import tempfile

from report import Failure, Skip

BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "../../build"))
UEXT4 = os.environ.get("UEXT4", os.path.join(BUILD, "src/tools/uext4"))


def run(*argv, check=True, **kw):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", **kw)
    if check and done.returncode:
        raise Failure(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}")
    return done


@contextlib.contextmanager
def workdir():
    path = tempfile.mkdtemp(prefix="uext4-test-", dir=os.environ.get("UEXT4_TEST_DIR"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def mkfs(path, size, *options):
    with open(path, "wb") as f:
        f.truncate(size)
    run("mke2fs", "-q", "-F", *options, path)


def fsck(path, what=""):
    """`e2fsck -fn` must find nothing; an unreplayed journal counts as something."""
    done = run("e2fsck", "-fn", path, check=False)
    if done.returncode:
        raise Failure(f"e2fsck -fn {path} {what}: exit {done.returncode}\n{done.stdout}")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root for the kernel's loop mount")


def need_fuse():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("no /dev/fuse here that we may use")


@contextlib.contextmanager
def kernel_mount(image, mountpoint, options=""):
    need_root()
    os.makedirs(mountpoint, exist_ok=True)
    run("mount", "-o", "loop" + ("," + options if options else ""), image, mountpoint)
    try:
        yield mountpoint
    finally:
        run("umount", mountpoint)


@contextlib.contextmanager
def uext4_mount(image, mountpoint, options=""):
    need_fuse()
    os.makedirs(mountpoint, exist_ok=True)
    argv = [UEXT4, "mount"] + (["-o", options] if options else []) + [image, mountpoint]
    run(*argv)
    try:
        yield mountpoint
    except BaseException:
        run(UEXT4, "umount", mountpoint, check=False)
        run("umount", "-l", mountpoint, check=False)
        raise
    run(UEXT4, "umount", mountpoint)


def copy(src, dst):
    run("cp", "--sparse=always", src, dst)
