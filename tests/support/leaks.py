"""What a process has open: compared before and after a test, so that no test leaves anything behind."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
import time
from pathlib import Path

SCRATCH = "/dev/shm/hardcap-"  # the default directory's prefix, and that of every test's own one
GRACE = 5.0  # seconds for threads and children that are on their way out
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant, so that none escapes the check."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[str]:
    """Children of all our threads, zombies too."""
    pids: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            pids |= {f"child {pid}" for pid in (task / "children").read_text().split()}
    return pids


def threads() -> set[str]:
    return {f"thread {thread.name} {thread.ident}" for thread in threading.enumerate()}


def segments() -> set[str]:
    """Descriptors and mappings of segments."""
    found = {f"mapping {line.split(maxsplit=5)[5].strip()}" for line in _maps() if SCRATCH in line}
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith(SCRATCH):
                found.add(f"descriptor {descriptor} {target}")
    return found


def _maps() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()


def files(prefix: str) -> set[str]:
    """Files of this prefix in the default directory."""
    directory = Path(f"{SCRATCH}{os.getuid()}")
    return {f"file {path}" for path in directory.glob(f"*{prefix}*")} if directory.is_dir() else set()


def everything(prefix: str) -> set[str]:
    return children() | threads() | segments() | files(prefix)


def left_behind(before: set[str], prefix: str) -> set[str]:
    """What is there now and was not before, given a moment to go away."""
    until = time.monotonic() + GRACE
    while (left := everything(prefix) - before) and time.monotonic() < until:
        gc.collect()
        time.sleep(0.02)
    return left
