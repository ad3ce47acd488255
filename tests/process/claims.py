"""Claim and free slots as fast as possible, or watch while others do. Run inside children of the test."""

from __future__ import annotations

import os
import time
from contextlib import closing

import hardcap
from hardcap import layout, locks, ownership, slots
from hardcap.attaching import attach
from hardcap.backend import choose

Owner = tuple[int, float]


def claim_and_free(config: hardcap.Config, cycles: int) -> list[Owner]:
    """Own one slot after the other: pid and start of each stay, as its owner knows them."""
    owners = []
    with closing(attach(config, choose(config.backend, config.name).words)) as shared:
        for number in range(cycles):
            slot = ownership.claim(shared)
            started_at = shared.words.load(layout.slot(slot) + layout.S_STARTED_AT)
            owners.append((os.getpid(), started_at / 1e9))
            time.sleep(0 if number % 8 else 0.001)  # some stay long enough to be seen
            slots.mark_free(shared, slot)
            locks.drop(shared.lock, layout.SLOT_LOCKS + slot)
    return owners


def watch(config: hardcap.Config, until: str) -> list[Owner]:
    """Look until the file ``until`` is there: each owner seen."""
    owners = set()
    with hardcap.open(config) as limiter:
        while not os.path.exists(until):
            owners |= {(process.pid, process.started_at) for process in limiter.snapshot().processes}
    return sorted(owners)


def attach_and_leave(config: hardcap.Config, cycles: int) -> int:
    """Open, reserve, release and close again and again: how many were admitted."""
    admitted = 0
    for _ in range(cycles):
        with hardcap.open(config) as limiter:
            if limiter.reserve():
                admitted += 1
                limiter.release()
    return admitted
