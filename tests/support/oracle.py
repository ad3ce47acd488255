"""What must be true once all holders are gone and recovery has run."""

from __future__ import annotations

import dataclasses
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
    """The same, after those who waited: what was granted to one who has just left is on its way back."""
    eventually(lambda: limiter.in_flight == 0, "nothing is in flight")
    assert_all_free(limiter, limit)


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
