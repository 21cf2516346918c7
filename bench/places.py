# SPDX-License-Identifier: MIT
"""The places that are measured: fresh images, mounted by uext4, fuse2fs or the kernel; and the programs that measure."""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/lib"))
from image import BUILD, UEXT4, run  # noqa: E402

MICRO = os.path.join(BUILD, "bench/micro")
LATENCY = os.path.join(BUILD, "bench/latency")
MB = 1 << 20


class Place:
    """A mounted fresh image; subclasses say by whom."""
    bytes = 2304 * MB

    def __init__(self, d):
        self.image, self.mnt = f"{d}/{self.name}.img", f"{d}/{self.name}.mnt"
        os.makedirs(self.mnt, exist_ok=True)

    def __enter__(self):
        with open(self.image, "wb") as f:  # its memory now, touched: nobody is to be measured finding it
            for _ in range(self.bytes // MB):
                f.write(bytes(MB))
        run("mke2fs", "-q", "-F", "-t", "ext4", "-E", "nodiscard,lazy_itable_init=1", self.image)
        self.mount()
        return self

    def __exit__(self, *why):
        self.umount()
        os.unlink(self.image)

    def umount(self):
        run("umount", self.mnt)

    def remount(self):
        """An empty page cache for this file system alone."""
        self.umount()
        self.mount()


class Uext4(Place):
    name = "uext4"

    def __init__(self, d, options=""):
        self.options = ["-o", options] if options else []
        super().__init__(d)

    def mount(self):
        run(UEXT4, "mount", *self.options, self.image, self.mnt)

    def stats(self):
        return json.loads(os.getxattr(self.mnt, "uext4.stats"))

    def umount(self):
        run(UEXT4, "umount", self.mnt)

    def requests(self):
        return self.stats()["fuse"]


class Fuse2fs(Place):
    name = "fuse2fs"

    def mount(self):
        run("fuse2fs", self.image, self.mnt)

    def umount(self):
        run("umount", self.mnt)
        while subprocess.run(["pgrep", "-f", f"fuse2fs {self.image}"], stdout=subprocess.DEVNULL).returncode == 0:
            time.sleep(0.02)


class Kernel(Place):
    name = "kernel"

    def mount(self):
        run("mount", "-o", "loop,noinit_itable", self.image, self.mnt)  # nothing in the background beside others


class Zram(Place):
    """The kernel's ext4 on a compressed memory device of its own."""
    name = "zram"
    CONTROL = "/sys/class/zram-control/"

    @classmethod
    def can(cls):
        return os.path.exists(cls.CONTROL + "hot_add")

    def __enter__(self):
        with open(self.CONTROL + "hot_add") as f:
            self.number = f.read().strip()
        self.image = f"/dev/zram{self.number}"
        with open(f"/sys/block/zram{self.number}/disksize", "w") as f:
            f.write(str(self.bytes))
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", self.image)
        self.mount()
        return self

    def mount(self):
        run("mount", "-o", "noinit_itable", self.image, self.mnt)

    def __exit__(self, *why):
        self.umount()
        with open(self.CONTROL + "hot_remove", "w") as f:
            f.write(self.number)


class Tmpfs(Place):
    name = "tmpfs"

    def __enter__(self):
        run("mount", "-t", "tmpfs", "none", self.mnt)
        return self

    def __exit__(self, *why):
        run("umount", self.mnt)

    def remount(self):
        pass


def micro(target, *tests, **opt):
    argv = [MICRO] + [a for k, v in opt.items() for a in (f"-{k}", str(v))] + [target] + list(tests)
    return {line.split()[-4]: float(line.split()[-2]) for line in run(*argv).stdout.splitlines() if len(line.split()) >= 4}
