"""Where a child may die: it is stopped before each such point in turn, up to the end of its operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.crash.tracer import ACCESS, CONTINUE, ONE_INSTRUCTION, READY, SYSTEM_CALL, TO_SYSTEM_CALL, Tracee
from tests.support.columns import Column

_BREAK: Final = b"\xcc"  # int3

Points = Callable[[Tracee], Iterator[None]]


def instructions(tracee: Tracee, library: str) -> Iterator[None]:
    """Every instruction of a library.

    While the child is elsewhere all of the library's code is breakpoints, so that it is caught at whatever instruction
    it comes in, or comes back. Inside it goes by single steps.
    """
    code = tracee.mapping(library)
    text = tracee.read(code.start, len(code))
    while True:
        tracee.write(code.start, _BREAK * len(code))
        signal = tracee.resume(CONTINUE)
        tracee.write(code.start, text)
        if signal == READY:
            return
        tracee.instruction -= len(_BREAK)
        while tracee.instruction in code:
            yield
            tracee.resume(ONE_INSTRUCTION)


def system_calls(tracee: Tracee) -> Iterator[None]:
    """Every system call: it is not made if the child is killed here."""
    while tracee.resume(TO_SYSTEM_CALL) == SYSTEM_CALL:
        yield
        tracee.resume(TO_SYSTEM_CALL)


def accesses(tracee: Tracee) -> Iterator[None]:
    """Every access to `AnnouncedWords`."""
    while tracee.resume(CONTINUE) == ACCESS:
        yield


class AnnouncedWords:
    """Words of the portable backend that stop the process before each access."""

    def __init__(self, words: Any, announce: Callable[[], None]) -> None:
        self._words = words
        self._announce = announce
        self.cells = self
        self.close = words.close
        self.detach = words.detach

    def load(self, index: int) -> int:
        self._announce()
        return int(self._words.load(index))

    def store(self, index: int, value: int) -> None:
        self._announce()
        self._words.store(index, value)

    def fetch_add(self, index: int, delta: int) -> int:
        self._announce()
        return int(self._words.fetch_add(index, delta))

    def compare_exchange(self, index: int, expected: int, desired: int) -> bool:
        self._announce()
        return bool(self._words.compare_exchange(index, expected, desired))

    def column(self, first: int, count: int, step: int) -> Column:
        return Column(self.load, first, count, step)

    __getitem__ = load
    __setitem__ = store
