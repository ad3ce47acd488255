"""What must be true once all holders are gone and recovery has run."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import hardcap
from tests.support.processes import eventually


def assert_all_free(limiter: hardcap.Limiter, limit: int) -> None:
    """Nothing in flight, exactly ``limit`` reservations to be had, nothing absurd shown."""
    limiter.reap()
    assert limiter.in_flight == 0
    assert limiter.available == limit
    admitted = 0
    while admitted <= limit and limiter.reserve():
        admitted += 1
    assert_sane(limiter.snapshot())
    if admitted:
        limiter.release(admitted)
    assert admitted == limit
    assert limiter.in_flight == 0
    assert_sane(limiter.snapshot())


def assert_all_come_back(limiter: hardcap.Limiter, limit: int) -> None:
    """The same, after those who waited: what is granted to one who has just left goes back at once."""
    eventually(lambda: not waiting_threads(), "nobody is served any more")
    assert_all_free(limiter, limit)


def waiting_threads() -> list[str]:
    """The threads of this process that serve those who wait."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("hardcap-waiting")]


def assert_sane(snapshot: hardcap.Snapshot) -> None:
    """No number shown is negative or 2**63 and more."""
    for number in _numbers(dataclasses.asdict(snapshot)):
        assert 0 <= number < 2**63


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
