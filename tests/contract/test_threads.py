"""Threads share one limiter: no unit is lost, none is taken twice."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import in_flight

THREADS, ROUNDS = 6, 80


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[hardcap.Limiter, int], int], *limiters: hardcap.Limiter) -> list[int]:
    """What each of the threads returns; they get the limiters in turn."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, itertools.cycle(limiters), range(THREADS)))


def cycle(limiter: hardcap.Limiter, seed: int) -> int:
    """Take and give in every way there is; keep nothing. How often there was no room."""
    choose = random.Random(seed)
    refused = 0
    for _ in range(ROUNDS):
        wanted = {"requests": choose.randint(0, 2), "tokens": choose.randint(1, 6)}
        if choose.random() < 0.5:
            if limiter.reserve(**wanted):
                limiter.release(**wanted)
            else:
                refused += 1
            continue
        try:
            with limiter.admit(**wanted) as permit:
                permit.release()
        except hardcap.CapExceeded:
            refused += 1
    return refused


def test_threads_of_one_limiter_end_at_zero(pair: hardcap.Limiter) -> None:
    refused = sum(together(cycle, pair))
    totals = pair.snapshot().totals
    assert in_flight(pair) == {"requests": 0, "tokens": 0}
    assert totals.admitted == totals.released == THREADS * ROUNDS - refused
    assert sum(totals.rejected.values()) == refused


def test_threads_of_two_limiters_end_at_zero(pair: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    together(cycle, pair, other)
    assert in_flight(pair) == {"requests": 0, "tokens": 0}
    assert [process.amounts for process in pair.snapshot().processes] == [{"requests": 0, "tokens": 0}] * 2


def test_threads_never_hold_more_than_the_limit(limiter: hardcap.Limiter) -> None:
    """Counted by what the threads were told, beside the limiter's own figures. One limiter: exact in both modes."""
    inside: list[int] = []  # append, pop and len are one step each

    def enter(limiter: hardcap.Limiter, _thread: int) -> int:
        most = 0
        for _ in range(ROUNDS):
            if limiter.reserve():
                inside.append(1)
                most = max(most, len(inside))
                inside.pop()
                limiter.release()
        return most

    assert 1 <= max(together(enter, limiter)) <= 3
    assert_all_free(limiter, 3)


def test_a_limit_that_changes_all_the_time(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    for limit in range(ROUNDS):
        limiter.set_limit(limit % 4)
        taken = [user for user in (limiter, other, limiter, other) if user.reserve()]
        assert len(taken) == limit % 4
        for user in taken:
            user.release()
    limiter.set_limit(3)
    assert_all_free(limiter, 3)
