"""The tracer looked at from inside a conductor: children that each do one thing, killed before every step of it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Any

from hardcap import extension
from tests.crash import points
from tests.crash.points import Way
from tests.crash.tracer import Tracee

core: Any = extension.native  # which there is, where anything is stepped through

SIZE = 7
TIMES = 3


def stores(direct: bool) -> list[list[int]]:
    """A word that is stored to by the native core, several times in the same way, instruction by instruction."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    words = core.Words(memory)
    return _observe(
        Way(lambda tracee: points.instructions(tracee, core.__file__), direct),
        lambda: [words.store(0, words.load(0) + 1) for _ in range(TIMES)],
        lambda: words.load(0),
        lambda: words.store(0, 0),
    )


def writes(path: str) -> list[list[int]]:
    """A file that is written to, system call by system call."""
    with open(path, "r+b") as file:
        number = file.fileno()
        return _observe(
            Way(points.system_calls),
            lambda: os.pwrite(number, bytes(SIZE), 0),
            lambda: os.fstat(number).st_size,
            lambda: os.truncate(number, 0),
        )


def _observe(
    way: Way, action: Callable[[], object], look: Callable[[], int], undo: Callable[[], object]
) -> list[list[int]]:
    """What is seen before each step; and what after a death there."""
    before, after = [], []
    first = Tracee(lambda: action)
    for _ in way.walk(first):
        pass
    first.kill()
    for number in range(1000):
        undo()
        tracee = Tracee(lambda: action)
        reached = way.go_to(tracee, number)
        if reached:
            before.append(look())
        tracee.kill()
        if not reached:
            break
        after.append(look())
    return [before, after]
