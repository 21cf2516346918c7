# SPDX-License-Identifier: MIT
"""What commits cost: a stream written in the new way and the old, fsyncs beside a stream, fsyncs that share commits."""
import contextlib
import json
import os
import statistics

from places import LATENCY, MICRO, Kernel, Uext4, Zram, run

IN_PROCESS = [("uext4", "cache_size=1G"), ("uext4, ablate=ordered-extents", "cache_size=1G,ablate=ordered-extents")]


def kernels(d, stack):
    out = [("kernel on loop", stack.enter_context(Kernel(d)))]
    if Zram.can():
        out.append(("kernel on zram", stack.enter_context(Zram(d))))
    return out


def measured(*argv):
    return json.loads(run(MICRO, "-j", *argv).stdout.splitlines()[-1])


def medians(values):
    return [statistics.median(v) for v in zip(*values)]


def pages_written(stats):
    return stats["journal"]["data_pages_by_commit"], stats["writeback"]["data_pages_by_flusher"]


def streamed_by_fuse(d, options, mib):
    """Seconds, busy seconds of the machine, and the pages that a fresh server wrote."""
    with Uext4(d, options) as place:
        r = measured("-S", str(mib), place.mnt, "seqwrite")
        return (r["seconds"], r["busy_seconds"]) + pages_written(place.stats())


def stream_rows(d, rounds, quick):
    mib = 64 if quick else 1024
    rows = [[f"{mib} MiB written and fsynced", "seconds", "busy seconds", "data pages by commit", "by flusher"]]
    seen = {}
    with contextlib.ExitStack() as stack:
        places = kernels(d, stack)
        for _ in range(rounds):
            for name, options in IN_PROCESS:
                r = measured("-S", str(mib), "-o", options, "memory", "seqwrite")
                seen.setdefault(name, []).append((r["seconds"], r["busy_seconds"]) + pages_written(r["stats"]))
                seen.setdefault(name + ", by FUSE", []).append(streamed_by_fuse(d, options, mib))
            for name, place in places:
                r = measured("-S", str(mib), place.mnt, "seqwrite")
                seen.setdefault(name, []).append((r["seconds"], r["busy_seconds"]))
                os.unlink(f"{place.mnt}/data0")
                run("sync", "-f", place.mnt)
    for name, values in seen.items():
        m = medians(values)
        rows.append([name, f"{m[0]:.2f}", f"{m[1]:.2f}"] + [f"{v:.0f}" for v in m[2:]] + ["-"] * (4 - len(m)))
    return rows


def latency(*argv):
    """{"alone": (p50, p99, max), "streaming": ...} in microseconds"""
    return {f[-6]: tuple(map(float, f[-4:-1])) for f in (line.split() for line in run(LATENCY, *argv).stdout.splitlines())}


def latency_rows(d, rounds, quick):
    s = "0.5" if quick else "3"
    rows = [["create, write 4 KiB, fsync; microseconds", "p50 alone", "p99 alone", "p50 beside a stream", "p99 beside a stream",
             "p99 beside/alone", "p99 beside: x uext4"]]
    seen = {}
    with contextlib.ExitStack() as stack:
        places = kernels(d, stack)
        for _ in range(rounds):
            for name, options in IN_PROCESS:
                seen.setdefault(name, []).append(latency("-s", s, "-o", options, "memory"))
            for name, place in places:
                seen.setdefault(name, []).append(latency("-s", s, "-S", "1024", place.mnt))
    for name, values in seen.items():
        a, b = (medians([v[k] for v in values]) for k in ("alone", "streaming"))
        ours = rows[1] if len(rows) > 1 else None
        rows.append([name, f"{a[0]:.0f}", f"{a[1]:.0f}", f"{b[0]:.0f}", f"{b[1]:.0f}", f"{b[1] / a[1]:.1f}",
                     f"{b[1] / float(ours[4]):.1f}" if ours else "1"])
    return rows


def fsync_rows(d, disk, rounds, quick):
    """In memory, and with images in @disk, where a commit waits for a device."""
    s = "0.5" if quick else "2"
    rows = [["append 4 KiB and fsync, each thread its file; per second", "1 thread", "2", "4", "8", "16", "commits a fsync, 16 threads"]]
    seen = {}
    with contextlib.ExitStack() as stack:
        places = kernels(d, stack)
        on_disk = stack.enter_context(Kernel(disk))
        targets = [("uext4", "memory")] + [(n, p.mnt) for n, p in places]
        targets += [("uext4, image on disk", f"image:{disk}/fsync.img"), ("kernel on loop, image on disk", on_disk.mnt)]
        stack.callback(os.unlink, f"{disk}/fsync.img")
        for _ in range(rounds):
            for name, target in targets:
                r = [measured("-t", str(t), "-s", s, target, "append-fsync") for t in (1, 2, 4, 8, 16)]
                j = r[-1]["stats"]["journal"] if r[-1]["stats"] else None
                seen.setdefault(name, []).append([x["operations"] / x["seconds"] for x in r] +
                                                 ([j["commits"] / max(1, j["fsyncs"])] if j else []))
    for name, values in seen.items():
        m = medians(values)
        rows.append([name] + [f"{v:.0f}" for v in m[:5]] + [f"{m[5]:.3f}" if len(m) > 5 else "-"])
    return rows
