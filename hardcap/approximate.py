"""Approximate: the sum of the slots decides; no atomic read-modify-write on the way in or out.

    reserve(a)                                      release(a)
      load limit; sum held over the slots             own: held -= a   (refuse if held < a)
      sum + a > limit: refuse
      own: held += a

Tolerated race: two processes may both scan before either writes. In flight at once is at most
``limit + (W - 1) * a``, with W attached limiters and a the largest amount reserved at once: each other process has at
most one reservation between its scan and its write.

The process-local lock sees to that "at most one", and its release makes a write visible before this process's next
scan. Entered again by a signal handler or a finalizer, a release is queued and applied on the way out, and a
reservation is refused: a second one between scan and write would break the bound.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import cast

from hardcap import bell, layout
from hardcap.admission import ADMITTED, Admission
from hardcap.amounts import Wanted
from hardcap.layout import LOW, MAX_LIMIT, SLOT_STEP, U64
from hardcap.segment import Segment
from hardcap.words import PlainWords


class Approximate(Admission):
    """Reserve and release by a scan of the slots and a plain store to one's own."""

    def __init__(self, segment: Segment, slot: int) -> None:
        super().__init__(segment, slot)
        self._plain = cast(PlainWords, segment.words)
        self._high_water = 0
        self._columns = [segment.words.column(0, 0, 1) for _ in segment.shape.resources]
        self._queued: deque[_Change] = deque()

    def reserve(self, wanted: Wanted, headroom: int) -> int:
        with self._lock:
            if self._depth:
                self._check_open()
                return wanted[0][0]
            self._depth = 1
            try:
                if self.closed:
                    self._check_open()
                refused = self._take(wanted, headroom, True)
                if refused == ADMITTED:
                    cells = self._plain.cells
                    cells[self._admitted] = cells[self._admitted] + 1 & U64
                return refused
            finally:
                self._depth = 0
                if self._queued or self._last_out:
                    self._leave()

    def release(self, wanted: Wanted) -> None:
        with self._lock:
            if self._depth:
                self._check_open()
                self._queue_release(wanted)
                return
            self._depth = 1
            try:
                if self.closed:
                    self._check_open()
                cells = self._plain.cells
                for index, units in wanted:
                    if cells[self._own[index]] & LOW < units:
                        raise self._too_much(index, units)
                for index, units in wanted:
                    cells[self._own[index]] -= units
                if self._queued:
                    self._check_queued(wanted)
                cells[self._released] = cells[self._released] + 1 & U64
            finally:
                self._depth = 0
                if self._queued or self._last_out:
                    self._leave()
        # [W1] release: the units are gone from the slot before the bell is read: the lock's release saw to that.
        #   pairs: [W1] in waiting, where the bell is set before it is asked once more
        #   else:  a waiter is refused a unit that is free, and nobody wakes it: for one bounded sleep.
        self._ring()

    def take(self, wanted: Wanted, *, enforced: bool) -> int:
        with self._lock:
            if self._depth:
                self._check_open()
                return wanted[0][0]
            self._depth = 1
            try:
                if self.closed:
                    self._check_open()
                return self._take(wanted, 0, enforced)
            finally:
                self._depth = 0
                if self._queued or self._last_out:
                    self._leave()

    def put_back(self, wanted: Wanted) -> None:
        with self._lock:
            self._check_open()
            self._queue_units(wanted)
            if not self._depth:
                self._leave()
        self._ring()

    def held(self, index: int) -> int:
        with self._lock:
            own = self._own[index]
            held = layout.low(self._words.load(own))
            for change in tuple(self._queued):
                if change.word == own:
                    held = (held if change.before is None else change.before) + change.units
            return held

    def give_back_all(self) -> None:
        for index, _ in self.holding():
            self._words.store(self._own[index], 0)

    def let_go(self) -> None:
        self._columns = []

    def _take(self, wanted: Wanted, headroom: int, enforced: bool) -> int:
        cells = self._plain.cells
        if cells[layout.H_HIGH_WATER] != self._high_water:
            self._see_new_slots()
        # [A1] scan: what this process wrote before is visible by now: the lock's release saw to that.
        #   pairs: [A1] in approximate, in every other process that writes and scans
        #   else:  two miss what the other has taken, again and again, and the bound is passed.
        for index, units in wanted:
            limit, room = cells[self._limits[index]], units + headroom
            if enforced and not sum(self._columns[index]) + room <= limit <= MAX_LIMIT:
                return index
            if cells[self._own[index]] > LOW - room:  # damage: it is not in the sum
                return index
        cells = self._plain.cells  # again: a handler may have forked, and the slot is the parent's then
        for index, units in wanted:
            cells[self._own[index]] += units  # [A1] write: before this process's next scan
        return ADMITTED

    def _count(self, word: int) -> None:
        with self._lock:
            if not self.closed:
                self._queued.append(_Change(word, 1))
                if not self._depth:
                    self._leave()

    def _ring(self) -> None:
        try:
            if self._plain.cells[layout.BELL]:
                bell.ring(self._words)
        except ValueError:  # closed meanwhile: whoever clears up rings
            return

    def _see_new_slots(self) -> None:
        count, step = self.segment.high_water(), SLOT_STEP
        firsts = [layout.slot_word(0, index) for index in range(len(self._own))]
        self._columns = [self._words.column(first, count, step) for first in firsts]
        self._high_water = count

    def _queue_release(self, wanted: Wanted) -> None:
        self._queue_units(wanted)
        self._queued.append(_Change(self._released, 1))

    def _queue_units(self, wanted: Wanted) -> None:
        for index, units in wanted:
            if self.held(index) < units:
                raise self._too_much(index, units)
        self._queued.extend([_Change(self._own[index], -units) for index, units in wanted])

    def _check_queued(self, released: Wanted) -> None:
        """Undo a release whose units somebody who came in its middle has released already."""
        for index, units in released:
            if self.held(index) < 0:
                for taken, more in released:
                    self._plain.cells[self._own[taken]] += more
                raise self._too_much(index, units)

    def _leave(self) -> None:
        self._apply_queue()
        super()._leave()

    def _apply_queue(self) -> None:
        """Whoever enters while this runs queues too, so that no store is lost; the last look finds nothing."""
        while self._queued:
            self._depth = 1
            try:
                while self._queued:
                    change = self._queued[0]
                    change.before = self._words.load(change.word)
                    after = change.before + change.units
                    self._words.store(change.word, after)
                    self._queued.popleft()
            finally:
                self._depth = 0
            bell.ring(self._words)


@dataclass(slots=True)
class _Change:
    """Something to add to a word of ours; once it is being applied, ``before`` tells what the word was."""

    word: int
    units: int
    before: int | None = None
