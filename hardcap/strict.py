"""Strict: the cap is one counter, changed by compare-and-swap; never more than the limit is in flight.

    reserve(a)                                      release(a)
      g = load G; l = load limit                      slot: held -= a, pending += a   (refuse if held < a)
      g.count + a > l: refuse                         G: count -= a, version += 1
      slot: pending += a                              slot: pending -= a
      swap G: g -> (count + a, version + 1)
        failed: load G and limit again;
                no room any more: pending -= a, refuse
      slot: held += a, pending -= a

Several resources: each in turn, all pending until the last is taken, then all confirmed. So whatever the instant at
which this process dies, each unit it took or gave is in ``held``, or in ``pending`` until recovery settles it.

Each step is one atomic access, so threads, signal handlers and finalizers may enter in the middle of one another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hardcap import bell, layout
from hardcap.admission import ADMITTED, Admission
from hardcap.amounts import Wanted
from hardcap.errors import SegmentClosed
from hardcap.layout import HIGH_ONE, LOW, MAX_LIMIT, high, low, pack
from hardcap.segment import Segment


class Strict(Admission):
    """Reserve and release by compare-and-swap on the global word of each resource."""

    def __init__(self, segment: Segment, slot: int) -> None:
        super().__init__(segment, slot)
        self._global = [layout.global_word(index) for index in range(len(segment.shape.resources))]

    def reserve(self, wanted: Wanted, headroom: int) -> int:
        with self._lock:
            self._depth += 1
            try:
                self._check_open()
                return self._reserve(wanted, headroom)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._leave()

    def release(self, wanted: Wanted) -> None:
        with self._lock:
            self._depth += 1
            try:
                self._check_open()
                self._release(wanted)
                self._words.fetch_add(self._released, 1)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._leave()

    def take(self, wanted: Wanted, *, enforced: bool) -> int:
        with self._inside():
            return self._take_all(wanted, 0, enforced)

    def put_back(self, wanted: Wanted) -> None:
        with self._inside():
            self._release(wanted)

    def give_back_all(self) -> None:
        self._release(self.holding())

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """What ``reserve`` and ``release`` have written out, where time counts."""
        with self._lock:
            self._depth += 1
            try:
                self._check_open()
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._leave()

    def _count(self, word: int) -> None:
        with contextlib.suppress(SegmentClosed), self._inside():
            self._words.fetch_add(word, 1)

    def _reserve(self, wanted: Wanted, headroom: int) -> int:
        refused = self._take_all(wanted, headroom, True)
        if refused == ADMITTED:
            self._words.fetch_add(self._admitted, 1)
        return refused

    def _take_all(self, wanted: Wanted, headroom: int, enforced: bool) -> int:
        for position, (index, units) in enumerate(wanted):
            if not self._take(index, units, headroom, enforced):
                for taken, more in wanted[:position]:
                    self._put_back(taken, more)
                if position:  # a waiter may have been refused meanwhile what was taken for nothing [W1]
                    bell.ring(self._words)
                return index
        for index, units in wanted:
            # [S2] confirm: held rises and pending falls in one step, after the swap.
            #   pairs: [S2] in recovery, which returns held and settles pending
            #   else:  a death in between loses the units, or gives them back twice.
            self._words.fetch_add(self._own[index], units - units * HIGH_ONE)
        return ADMITTED

    def _take(self, index: int, units: int, headroom: int, enforced: bool) -> bool:
        room = units + headroom
        before = self._look(index, room, enforced)
        if before is None or not self._announce(index, units):
            return False
        while not self._swap(index, before, units):
            before = self._look(index, room, enforced)
            if before is None:
                self._words.fetch_add(self._own[index], -units * HIGH_ONE)
                return False
        return True

    def _look(self, index: int, room: int, enforced: bool) -> int | None:
        """The global word, if the limit leaves that much room; not ``enforced``, if the word does."""
        # [L1] reserve: the global word is loaded before the limit.
        #   pairs: [L1] in segment.set_limits, which stores the limit before it moves the version
        #   else:  the swap succeeds by a limit that was no longer in force when it was loaded.
        word = self._words.load(self._global[index])
        limit = self._words.load(self._limits[index])
        if not enforced:
            return word if low(word) + room <= LOW else None
        return word if low(word) + room <= limit <= MAX_LIMIT else None

    def _announce(self, index: int, units: int) -> bool:
        # [P1] reserve: pending is visible before the swap.
        #   pairs: [P1] in recovery, which loads the global word before it reads the slots
        #   else:  settle takes a unit that is being admitted for one that nobody holds.
        own = self._own[index]
        while True:
            word = self._words.load(own)
            if low(word) + high(word) + units > LOW:
                return False
            if self._words.compare_exchange(own, word, word + units * HIGH_ONE):
                return True

    def _swap(self, index: int, before: int, units: int) -> bool:
        after = pack(low(before) + units, high(before) + 1)
        return self._words.compare_exchange(self._global[index], before, after)

    def _release(self, wanted: Wanted) -> None:
        self._mark_all(wanted)
        for index, units in wanted:
            self._put_back(index, units)
        # [W1] release: the count has gone down, by a read-modify-write, before the bell is read.
        #   pairs: [W1] in waiting, where the bell is set before it is asked once more
        #   else:  a waiter is refused a unit that is free, and nobody wakes it: for one bounded sleep.
        bell.ring(self._words)

    def _mark_all(self, wanted: Wanted) -> None:
        for index, units in wanted:
            if self.held(index) < units:
                raise self._too_much(index, units)
        for position, (index, units) in enumerate(wanted):
            if not self._mark(index, units):  # another thread was faster
                for marked, more in wanted[:position]:
                    self._words.fetch_add(self._own[marked], more - more * HIGH_ONE)
                raise self._too_much(index, units)

    def _mark(self, index: int, units: int) -> bool:
        """Held falls and pending rises in one step, unless less is held. [S2]"""
        own = self._own[index]
        while True:
            word = self._words.load(own)
            if low(word) < units:
                return False
            if self._words.compare_exchange(own, word, word - units + units * HIGH_ONE):
                return True

    def _put_back(self, index: int, units: int) -> None:
        self._words.fetch_add(self._global[index], HIGH_ONE - units)
        self._words.fetch_add(self._own[index], -units * HIGH_ONE)
