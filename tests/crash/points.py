"""Where a child may die: it is stopped before each such point in turn, up to the end of its operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.crash.tracer import ACCESS, CONTINUE, ONE_INSTRUCTION, READY, SYSTEM_CALL, TO_SYSTEM_CALL, Tracee
from tests.support.columns import Column

_BREAK: Final = b"\xcc"  # int3

Points = Callable[[Tracee], Iterator[None]]
GoTo = Callable[[Tracee, int], bool]


@dataclass
class Way:
    """The points of one action, in their order. A ``direct`` way that was walked once, to its end, need not be stepped
    along again: its points are told by their addresses, so the child runs freely up to a breakpoint."""

    points: Points
    direct: bool = False
    _addresses: list[int] = field(default_factory=list)

    def walk(self, tracee: Tracee) -> Iterator[None]:
        """Stop at each point."""
        addresses = []
        for _ in self.points(tracee):
            addresses.append(tracee.instruction)
            yield
        self._addresses = addresses

    def step_to(self, tracee: Tracee, number: int) -> bool:
        """To the point of that number, or to the end. Whether there is such a point."""
        return any(reached == number for reached, _ in enumerate(self.walk(tracee)))

    def go_to(self, tracee: Tracee, number: int) -> bool:
        """The same. A child that does not go the way that was walked before may miss its point."""
        if not self.direct:
            return self.step_to(tracee, number)
        if number >= len(self._addresses):
            return _run(tracee)
        address = self._addresses[number]
        passes = self._addresses[:number].count(address)
        return all(_run_to(tracee, address) for _ in range(passes + 1))

    @property
    def attempts(self) -> tuple[GoTo, ...]:
        """How to come to a point, each by a child of its own: the next one if that missed it."""
        return (self.go_to, self.step_to) if self.direct else (self.step_to,)


def _run_to(tracee: Tracee, address: int) -> bool:
    """On to the next time that it is about to execute what stands there. Whether that was before its end."""
    if tracee.instruction == address:
        tracee.resume(ONE_INSTRUCTION)
    if tracee.instruction == address:  # one that repeats itself
        return True
    text = tracee.read(address, len(_BREAK))
    tracee.write(address, _BREAK)
    caught = _run(tracee)
    tracee.write(address, text)
    return caught


def _run(tracee: Tracee) -> bool:
    """On to the next breakpoint: it stands before what is there. Or to the end."""
    if tracee.resume(CONTINUE) == READY:
        return False
    tracee.instruction -= len(_BREAK)
    return True


def instructions(tracee: Tracee, library: str) -> Iterator[None]:
    """Every instruction of a library.

    While the child is elsewhere all of the library's code is breakpoints, so that it is caught at whatever instruction
    it comes in, or comes back. Inside it goes by single steps.
    """
    code = tracee.mapping(library)
    text = tracee.read(code.start, len(code))
    while True:
        tracee.write(code.start, _BREAK * len(code))
        caught = _run(tracee)
        tracee.write(code.start, text)
        if not caught:
            return
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
