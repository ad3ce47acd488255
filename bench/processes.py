"""How processes are made where there are many of them, and what they have taken."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext


def context(modules: Sequence[str]) -> ForkServerContext:
    """Processes forked from a server that has imported these modules, and nothing else of this process."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(list(modules))
    return made


def processor_seconds(pid: int) -> float:
    """What a process has taken so far, all its threads together. ``OSError`` if there is none."""
    return time.clock_gettime(~pid << 3 | 2)  # its clock's number, as clock_getcpuclockid makes it
