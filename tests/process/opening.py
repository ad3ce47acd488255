"""One of many that open the same fresh names at the same instants. Run inside a child of the test."""

from __future__ import annotations

import os
from typing import Any

import hardcap
from tests.support.channel import Channel

CHANNELS = ("start", "stop", "done")


def open_many(directory: str, rounds: int, **settings: Any) -> list[tuple[int, int]]:
    """For each round the inode that was opened, and how many units were to be had."""
    start, stop, done = (Channel(os.path.join(directory, what)) for what in CHANNELS)
    results = []
    for number in range(rounds):
        start.wait()
        limiter = hardcap.open(f"round-{number}", directory=directory, **settings)
        admitted = 0
        while limiter.reserve():
            admitted += 1
        results.append((mapped_inode(directory), admitted))
        done.send(b".")
        stop.wait()
        limiter.close()
        done.send(b".")
    return results


def mapped_inode(directory: str) -> int:
    """The inode of the one mapped file of that directory, as the kernel tells it."""
    with open("/proc/self/maps") as maps:
        (inode,) = {int(line.split()[4]) for line in maps if directory in line}
    return inode
