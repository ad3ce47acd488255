"""Segments in a list: the product's own steps, one access at a time, stopped or interrupted wherever a test wants.

The words are Python integers; the locks are the kernel's, on a file without a name. Several owners share one memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Collection, Iterator

from hardcap import descriptors, layout, locks
from hardcap.config import Mode
from hardcap.header import MODE_NUMBERS, Shape
from hardcap.layout import WORD, high, low
from hardcap.segment import Segment
from hardcap.words import words_of
from tests.support.columns import Column

Watch = Callable[[str, int], None]
WRITES = ("store", "fetch_add", "compare_exchange")
ACCESSES = ("load", *WRITES)


class Stopped(BaseException):
    """In the place of SIGKILL: who gets it does nothing more."""


class ListWords:
    """`Words`, and no more. ``watch`` is told of each access, by its kind and word, before it happens."""

    def __init__(self, image: bytes) -> None:
        self._values = list(words_of(image, 0, len(image) // WORD))
        self.watch: Watch = _look_away
        self.cells = self

    def load(self, index: int, /) -> int:
        self.watch("load", index)
        return self._values[index]

    def store(self, index: int, value: int, /) -> None:
        assert 0 <= value <= layout.U64
        self.watch("store", index)
        self._values[index] = value

    def fetch_add(self, index: int, delta: int, /) -> int:
        self.watch("fetch_add", index)
        before = self._values[index]
        self._values[index] = (before + delta) & layout.U64
        return before

    def compare_exchange(self, index: int, expected: int, desired: int, /) -> bool:
        self.watch("compare_exchange", index)
        if self._values[index] != expected:
            return False
        self._values[index] = desired
        return True

    def column(self, first: int, count: int, step: int, /) -> Column:
        return Column(self.load, first, count, step)

    def address(self, index: int, /) -> int:
        return 0  # nowhere, for the kernel

    __getitem__ = load
    __setitem__ = store

    def before(self, kind: str, index: int, action: Callable[[], object]) -> None:
        """Do this once, right before the next access of that kind to that word."""

        def watch(seen: str, where: int) -> None:
            if (seen, where) == (kind, index):
                self.undisturbed()
                action()

        self.watch = watch

    def before_access(self, number: int, action: Callable[[], object], kinds: Collection[str] = ACCESSES) -> None:
        """Do this once, right before the access of that number, from 0, among those of these kinds."""
        numbers = itertools.count()

        def watch(seen: str, _where: int) -> None:
            if seen in kinds and next(numbers) == number:
                self.undisturbed()
                action()

        self.watch = watch

    def undisturbed(self) -> bool:
        """Watch no more. Whether anybody still did."""
        watching, self.watch = self.watch is not _look_away, _look_away
        return watching


def _look_away(_kind: str, _index: int) -> None:
    pass


class Process(Segment):
    """One process's view of a segment in memory, with locks of its own."""

    words: ListWords  # type: ignore[assignment]

    def __init__(self, shape: Shape, words: ListWords, lock: int) -> None:
        self.path = self.name = "memory"
        self.shape = shape
        self.lock = lock
        self.words = words
        self.sweeper = locks.Sweeper(descriptors.reopen(lock))

    def die(self) -> None:
        """The kernel drops its locks; every word stays as it is."""
        descriptors.close(self.lock)
        if self.sweeper:
            self.sweeper.close()


class Memory:
    """A fresh segment in memory. ``process`` gives one more view of it."""

    def __init__(self, mode: Mode, limits: dict[str, int], slots: int, lock: int) -> None:
        self.shape = Shape(mode, tuple(limits), slots)
        self._lock = lock
        image = layout.initial_image(MODE_NUMBERS[mode], self.shape.resources, tuple(limits.values()), slots, 1)
        self.words = ListWords(image)
        self._processes: list[Process] = []

    def process(self) -> Process:
        self._processes.append(Process(self.shape, self.words, descriptors.reopen(self._lock)))
        return self._processes[-1]

    def close(self) -> None:
        for process in self._processes:
            process.die()

    def count(self, index: int = 0) -> int:
        return low(self.words.load(layout.global_word(index)))

    def version(self, index: int = 0) -> int:
        return high(self.words.load(layout.global_word(index)))

    def held(self, slot: int, index: int = 0) -> int:
        return low(self.words.load(layout.slot_word(slot, index)))

    def pending(self, slot: int, index: int = 0) -> int:
        return high(self.words.load(layout.slot_word(slot, index)))


@contextlib.contextmanager
def memory(mode: Mode | str, limits: dict[str, int], slots: int = 4) -> Iterator[Memory]:
    """A fresh segment in memory, closed at the end of the block."""
    lock = os.memfd_create("locks")
    try:
        with contextlib.closing(Memory(Mode(mode), limits, slots, lock)) as made:
            yield made
    finally:
        os.close(lock)
