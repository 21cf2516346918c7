# SPDX-License-Identifier: MIT
"""report.py - lines `ok NAME`, `not ok NAME`, `skip NAME reason`, as scripts/check counts them.

ONLY=TEXT in the environment runs the cases whose name holds TEXT.
"""
import os
import sys
import time
import traceback

failed = 0


def case(name, func, *args):
    """Runs one case; an exception is a failure with its text."""
    global failed
    if os.environ.get("ONLY", "") not in name:
        return
    start = time.monotonic()
    try:
        func(*args)
    except Skip as why:
        print(f"skip {name} {why}", flush=True)
    except Exception as why:  # every failure becomes a line, the run goes on
        failed += 1
        print(f"not ok {name}", flush=True)
        text = str(why) if isinstance(why, Failure) else traceback.format_exc()
        for line in text.splitlines()[:40]:
            print(f"#   {line}", flush=True)
    else:
        print(f"ok {name} # {time.monotonic() - start:.1f} s", flush=True)


class Skip(Exception):
    pass


class Failure(Exception):
    """A difference found: its text is enough, no traceback."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def finish():
    sys.exit(1 if failed else 0)
