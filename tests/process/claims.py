"""Claim and free slots as fast as possible, or watch while others do. Run inside children of the test."""

from __future__ import annotations

import os

import hardcap

Owner = tuple[int, float]


def claim_and_free(name: str, directory: str, cycles: int) -> list[Owner]:
    """Attach and leave again and again: pid and start of each stay, as its owner knows them."""
    owners = []
    for _ in range(cycles):
        with hardcap.open(name, directory=directory) as limiter:
            assert limiter.reserve(), "refused, though there is room for all"
            own = [process for process in limiter.snapshot().processes if process.pid == os.getpid()]
            assert [process.held for process in own] == [1]
            owners.append((own[0].pid, own[0].started_at))
            limiter.release()
    return owners


def watch(name: str, directory: str, until: str) -> tuple[int, list[Owner]]:
    """Look until the file ``until`` is there: how often, and each owner seen."""
    looks, owners = 0, set()
    while not os.path.exists(until):
        looks += 1
        snapshot = hardcap.inspect(name, directory=directory)
        owners |= {(process.pid, process.started_at) for process in snapshot.processes}
    return looks, sorted(owners)
