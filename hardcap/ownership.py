"""Who owns a slot: the holder of the kernel's lock on its byte, for as long as the lock's descriptor is open."""

from __future__ import annotations

import os
import time

from hardcap import layout, locks
from hardcap.errors import SlotsExhausted
from hardcap.layout import high, pack
from hardcap.recovery import sweep
from hardcap.segment import Segment
from hardcap.slots import is_clean, totals

CLAIM_PATIENCE = 0.5  # seconds that a full table is tried again: a sweep may hold the lock of a free slot


def claim(segment: Segment) -> int:
    """Take a free slot for this process. Raises :class:`SlotsExhausted` when every slot has a live owner."""
    deadline = time.monotonic() + CLAIM_PATIENCE
    while True:
        for slot in range(segment.shape.slots):
            if _take(segment, slot):
                return slot
        sweep(segment)
        if time.monotonic() >= deadline:
            raise _exhausted(segment)
        time.sleep(0.005)


def _exhausted(segment: Segment) -> SlotsExhausted:
    slots = segment.shape.slots
    live = sum(locks.is_taken(segment.lock, layout.SLOT_LOCKS + slot) for slot in range(slots))
    found = f"slot table full, {live} live"
    if live < slots:  # cut in half by a death, while others never paused
        found += f", {slots - live} of the dead not recovered yet"
    remedy = "raise max_processes and restart all, or stop processes that need no limiter"
    return SlotsExhausted(segment.path, found, "a free slot", remedy)


def _take(segment: Segment, slot: int) -> bool:
    if not locks.take(segment.lock, layout.SLOT_LOCKS + slot):
        return False
    _raise_high_water(segment, slot + 1)
    if not is_clean(segment, slot):
        # Dirty: recovered by a sweep like anyone's, never by the claimer, whose own lock would make it look alive.
        locks.drop(segment.lock, layout.SLOT_LOCKS + slot)
        sweep(segment)
        return False
    _move_in(segment, slot)
    return True


def _raise_high_water(segment: Segment, mark: int) -> None:
    # [H1] claim: the mark is raised before the first announcement in the slot.
    #   pairs: [H1] in segment.high_water, read by every scan after the global word
    #   else:  a scan that began later misses what this owner takes.
    words = segment.words
    while (current := words.load(layout.H_HIGH_WATER)) < mark:
        words.compare_exchange(layout.H_HIGH_WATER, current, mark)


def _move_in(segment: Segment, slot: int) -> None:
    words, block = segment.words, layout.slot(slot)
    words.store(block + layout.S_PID, os.getpid())
    words.store(block + layout.S_STARTED_AT, time.time_ns())
    words.store(block + layout.S_OLDEST_PERMIT, 0)
    for k, total in enumerate(totals(segment, slot)):
        words.store(block + layout.S_BASELINE + k, total)
    incarnation = high(words.load(block + layout.S_STATE)) + 1
    # [C1] claim: pid, start and baseline are written before the slot is marked live.
    #   pairs: [C1] in snapshot, which reads the state before and after them
    #   else:  a reader shows a live slot with the previous owner's pid.
    words.store(block + layout.S_STATE, pack(layout.STATE_LIVE, incarnation))
