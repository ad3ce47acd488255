"""How processes are made where there are many of them: forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext


def context(modules: Sequence[str]) -> ForkServerContext:
    """Processes that start with these modules imported, and with nothing else of this one."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(list(modules))
    return made
