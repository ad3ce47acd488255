"""Who held what, when: an independent witness that nobody ever waits for.

Whoever is admitted writes down when it asked, when it was let in, and when it began to give back, by the machine's one
monotonic clock, into memory that the conductor of the storm shares. From the second to the third the units are surely
held, so where these stretches add up to more than was allowed, more was in flight. Nothing is locked: a writer that is
stopped or killed between two stores holds nobody up. A stretch that was never ended lasts until the kill was sent.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

RECORDS: Final = 4096  # a page; whoever has filled one ends, as a worker does after so many requests
_CALLED, _ADMITTED, _ENDED, _AMOUNTS, _WORDS = range(5)
_PAGE: Final = RECORDS * _WORDS + 1  # words; the last one counts refusals
_AMOUNT: Final = struct.Struct("<4H")  # one a resource
_CHANGE: Final = 1 << 62  # in the place of the amounts: a new limit of the first resource

now = time.monotonic_ns


class Stay(NamedTuple):
    """Units of each resource, held at least from ``admitted`` to ``ended``; times in nanoseconds."""

    called: int
    admitted: int
    ended: int
    amounts: tuple[int, ...]


class Change(NamedTuple):
    """A new limit of the first resource, in force from some moment between ``called`` and ``returned``."""

    called: int
    returned: int
    limit: int


class Page:
    """The records of one thread, or of one forked child."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self._next = 0

    @property
    def is_full(self) -> bool:
        return self._next >= RECORDS * _WORDS

    def refused(self) -> None:
        self._cells[_PAGE - 1] += 1

    def admitted(self, called: int, amounts: tuple[int, ...]) -> int:
        """Note an admission, right after it. What ``ending`` is to be told."""
        packed = int.from_bytes(_AMOUNT.pack(*amounts, *[0] * (4 - len(amounts))), "little")
        at = self._begin(called, packed)
        self._cells[at + _ADMITTED] = now()
        return at

    def ending(self, at: int) -> None:
        """Note that the units are about to be given back."""
        self._cells[at + _ENDED] = now()

    def changing(self, limit: int) -> int:
        """Note that a limit is about to be put in force. What ``changed`` is to be told."""
        return self._begin(now(), _CHANGE | limit)

    def changed(self, at: int) -> None:
        self._cells[at + _ADMITTED] = now()

    def _begin(self, called: int, content: int) -> int:
        at, self._next = self._next, self._next + _WORDS
        self._cells[at + _AMOUNTS] = content
        self._cells[at + _CALLED] = called
        return at

    def read(self, killed_at: int, resources: int) -> Iterator[Stay | Change]:
        """All that was noted, by a writer that is gone."""
        for at in range(0, RECORDS * _WORDS, _WORDS):
            called, admitted, ended, content = self._cells[at : at + _WORDS]
            if not called:
                return
            if content & _CHANGE:
                yield Change(called, admitted or 1 << 62, content ^ _CHANGE)
            elif admitted:
                amounts = _AMOUNT.unpack(content.to_bytes(8, "little"))[:resources]
                yield Stay(called, admitted, ended or killed_at, amounts)

    def clear(self) -> int:
        """Make it ready for the next writer: how many refusals the last one noted."""
        refused = int(self._cells[_PAGE - 1])
        self._cells[:] = _BLANK
        self._next = 0
        return refused


_BLANK: Final = memoryview(bytes(8 * _PAGE)).cast("B").cast("q")


class Pages:
    """Pages to be had by the forked children of the process that made this; they are the conductor's to give."""

    def __init__(self, count: int) -> None:
        cells = memoryview(mmap.mmap(-1, 8 * (_PAGE * count + 1))).cast("q")
        self._stop = cells[:1]
        self.free = [Page(cells[1 + n * _PAGE : 1 + (n + 1) * _PAGE]) for n in range(count)]

    @property
    def stopping(self) -> bool:
        """Whether the workers are asked to end."""
        return bool(self._stop[0])

    @stopping.setter
    def stopping(self, stop: bool) -> None:
        self._stop[0] = stop
