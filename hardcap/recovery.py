"""Recovery: give back what dead owners held, exactly once, safe to kill at any instruction.

    sweep    take the lock of every slot in use; where it is to be had, the owner is dead
    return   what it held goes back at once
    settle   what it had pending may or may not be in the global count: found out at a moment when no change is in
             flight, of which the version is the proof

Invariants, by the numbers of the design:
    I1  what live owners hold <= global count
    I2  no reservation lifts the count above a limit in force between its start and its swap
    I3  count, held and pending are never negative
    I4  nothing left to do: the count is what live owners hold
    I5  from every state, one with nothing left to do can be reached without a further death
"""

from __future__ import annotations

import time
from typing import NamedTuple

from hardcap import bell, layout, locks
from hardcap.config import Mode
from hardcap.errors import SegmentError
from hardcap.layout import HIGH_ONE, LOW, high, low, pack
from hardcap.segment import Segment
from hardcap.slots import is_clean, is_live, mark_free

SWEEP_INTERVAL = 10_000_000  # nanoseconds between two sweeps that refusals start
SETTLE_TRIES = 32  # per sweep; one fails when any change is in flight on the segment


class Swept(NamedTuple):
    """What a sweep did: owners whose slot is clean and free again, and whether anything came back."""

    owners: int
    changed: bool


def is_due(segment: Segment) -> bool:
    """Whether nobody on this segment has swept for 10 ms; the one who is told so sweeps."""
    now = time.monotonic_ns()
    last = segment.words.load(layout.H_SWEPT_AT)
    if 0 <= now - last < SWEEP_INTERVAL:  # a value in the future counts as long ago
        return False
    return segment.words.compare_exchange(layout.H_SWEPT_AT, last, now)


def sweep(segment: Segment) -> Swept:
    """Recover every dead owner that can be recovered now."""
    if segment.sweeper is None:
        raise SegmentError(segment.path, "a segment that is only looked at", "one attached to")
    with segment.sweeper.turn() as lock:
        return Swept(0, False) if lock is None else _Sweep(segment, lock).run()


class _Sweep:
    """One pass, with the locks it holds: a slot's lock is kept until the slot is clean."""

    def __init__(self, segment: Segment, lock: int) -> None:
        self._segment = segment
        self._words = segment.words
        self._resources = range(len(segment.shape.resources))
        self._lock = lock
        self._kept: set[int] = set()
        self._owners = 0
        self._changed = False

    def run(self) -> Swept:
        for slot in self._in_use():
            # The lock is taken, never asked for: so nobody can claim the slot while it is being recovered.
            if locks.take(self._lock, layout.SLOT_LOCKS + slot):
                self._recover(slot)
        if self._kept and locks.take(self._lock, layout.REAPER_BYTE):
            self._settle_all()
        if self._changed:
            bell.ring(self._words)
        return Swept(self._owners, self._changed)

    def _in_use(self) -> list[int]:
        """Slots marked live or not clean, as a first look shows; what counts is read again under the slot's lock."""
        count = self._segment.high_water()
        states = self._words.column(layout.slot(0) + layout.S_STATE, count, layout.SLOT_STEP)
        words = [self._words.column(layout.slot_word(0, index), count, layout.SLOT_STEP) for index in self._resources]
        looks = enumerate(zip(states, *words, strict=True))
        return [slot for slot, (state, *held) in looks if low(state) == layout.STATE_LIVE or any(held)]

    def _recover(self, slot: int) -> None:
        for index in self._resources:
            self._return(layout.slot_word(slot, index), index)
        if is_clean(self._segment, slot):
            self._free(slot)
        else:
            self._kept.add(slot)

    def _return(self, own: int, index: int) -> None:
        """Give back what was held; what was pending is left to settle. So no unit may be in both, or neither. [S2]"""
        word = self._words.load(own)
        held, pending = low(word), high(word)
        if not held:
            return
        self._changed = True
        if self._segment.shape.mode is Mode.approximate:
            self._words.store(own, 0)
            return
        # [R1] return: what was held is pending before the count goes down, and until it has.
        #   pairs: [R1] in settle, which sums nothing while anything is pending
        #   else:  a reaper killed between the two steps leaves units that nobody counts as open.
        self._words.store(own, pack(0, pending + held))
        self._words.fetch_add(layout.global_word(index), HIGH_ONE - held)
        self._words.store(own, pack(0, pending))

    def _free(self, slot: int) -> None:
        if is_live(self._segment, slot):  # else its owner left by itself, between the first look and the lock
            mark_free(self._segment, slot)
            self._words.fetch_add(layout.H_RECOVERED, 1)
            self._owners += 1
        locks.drop(self._lock, layout.SLOT_LOCKS + slot)

    def _settle_all(self) -> None:
        for index in self._resources:
            if any(self._words.load(layout.slot_word(slot, index)) for slot in self._kept):
                self._settle(index)
        for slot in sorted(self._kept):
            if is_clean(self._segment, slot):
                self._free(slot)

    def _settle(self, index: int) -> None:
        if self._swap_natively(index) if hasattr(self._words, "settle") else self._swap(index):
            for slot in sorted(self._kept):
                self._words.store(layout.slot_word(slot, index), 0)
            self._changed = True

    def _swap(self, index: int) -> bool:
        return any(self._swap_once(index) for _ in range(SETTLE_TRIES))

    def _swap_once(self, index: int) -> bool:
        # [P1] settle: the global word is loaded before the slots are read.
        #   pairs: [P1] in strict, where pending is announced before the swap
        #   else:  a swap after this load makes ours fail; one before it has been announced where we look.
        before = self._words.load(layout.global_word(index))
        total = self._sum_if_quiet(index)
        if total is None:
            return False
        after = pack(total, high(before) + 1)
        return self._words.compare_exchange(layout.global_word(index), before, after)

    def _swap_natively(self, index: int) -> bool:
        """The same scan and swap in C, where its window is a few nanoseconds a slot."""
        kept = bytes(slot in self._kept for slot in range(self._segment.shape.slots))
        words = (layout.global_word(index), layout.H_HIGH_WATER, layout.slot_word(0, index))
        return self._words.settle(*words, layout.SLOT_STEP, kept, SETTLE_TRIES)  # type: ignore[attr-defined, no-any-return]

    def _sum_if_quiet(self, index: int) -> int | None:
        """What the others hold, or None while one of them has a change in flight. Asks the kernel nothing. [R1]"""
        total = 0
        words = self._words.column(layout.slot_word(0, index), self._segment.high_water(), layout.SLOT_STEP)
        for slot, word in enumerate(words):
            if slot in self._kept:
                continue
            if high(word):
                return None
            total += low(word)
        return total if total <= LOW else None  # more is damage
