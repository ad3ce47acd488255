"""A permit's amounts, changed while it is held."""

from __future__ import annotations

import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.processes import DEADLINE
from tests.support.views import in_flight, nothing_changes
from tests.support.waiters import line


def test_what_is_named_is_replaced(pair: hardcap.Limiter) -> None:
    permit = pair.admit(1, tokens=4)
    for changes, amounts in (
        ({"tokens": 7}, {"requests": 1, "tokens": 7}),
        ({"tokens": 2, "requests": 3}, {"requests": 3, "tokens": 2}),
        ({"tokens": 0}, {"requests": 3}),
        ({"tokens": 10, "requests": 0}, {"tokens": 10}),
    ):
        assert permit.adjust(**changes) is True
        assert permit.amounts == amounts
        assert in_flight(pair) == {"requests": 0, "tokens": 0} | amounts
    assert permit.adjust(2) is True
    assert permit.amounts == {"tokens": 10, "requests": 2}
    assert permit.release() is True
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


def test_calls_are_counted_as_ever(pair: hardcap.Limiter) -> None:
    with pair.admit(1, tokens=4) as permit:
        assert permit.adjust(tokens=7)
        assert permit.adjust(tokens=1)
        assert not permit.adjust(tokens=11)
    totals = pair.snapshot().totals
    assert (totals.admitted, totals.released, totals.rejected) == (1, 1, {"requests": 0, "tokens": 1})


def test_what_does_not_fit_changes_nothing(pair: hardcap.Limiter) -> None:
    """Not the part that would fit, and nothing is given back."""
    with pair.admit(2, tokens=4) as permit, pair.admit(tokens=4):
        before = in_flight(pair)
        for changes in ({"tokens": 7}, {"requests": 3, "tokens": 7}, {"requests": 1, "tokens": 7}, {"requests": 4}):
            assert permit.adjust(**changes) is False
            assert (permit.amounts, in_flight(pair)) == ({"requests": 2, "tokens": 4}, before)


@pytest.mark.parametrize("changes", [{}, {"tokens": -1}, {"tokens": True}, {"files": 1}, {"tokens": 0, "requests": 0}])
def test_wrong_amounts(pair: hardcap.Limiter, changes: dict[str, int]) -> None:
    with pair.admit(1, tokens=4) as permit, nothing_changes(pair), pytest.raises(ValueError):
        permit.adjust(**changes)


def test_released_it_is_false(limiter: hardcap.Limiter, opened: Open) -> None:
    permit = limiter.admit()
    permit.release()
    leaving = opened()
    void = leaving.admit()
    leaving.close()
    with nothing_changes(limiter):
        assert permit.adjust(2) is False
        assert void.adjust(2) is False


def test_what_was_released_behind_its_back_is_told(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit(3)
    limiter.release(3)
    with pytest.raises(hardcap.ReleaseError):
        permit.adjust(1)
    assert permit.amounts == {"requests": 3}
    with pytest.raises(hardcap.ReleaseError):
        permit.release()


def test_what_it_gives_back_comes_to_a_waiter(limiter: hardcap.Limiter) -> None:
    with limiter.admit(3) as permit, line(limiter) as waiting:
        waiter = waiting.join(None, 2)
        assert permit.adjust(1)
        waiter.result(DEADLINE).release()


def test_a_race_with_the_release_loses_and_doubles_nothing(pair: hardcap.Limiter) -> None:
    def adjust(permit: hardcap.Permit, barrier: threading.Barrier) -> None:
        barrier.wait()
        for units in (5, 1, 3, 2):
            permit.adjust(tokens=units)

    def release(permit: hardcap.Permit, barrier: threading.Barrier) -> bool:
        barrier.wait()
        return permit.release()

    with ThreadPoolExecutor(3) as pool:
        for _ in range(100):
            permit, barrier = pair.admit(1, tokens=2), threading.Barrier(3)
            adjusting = [pool.submit(adjust, permit, barrier) for _ in range(2)]
            assert pool.submit(release, permit, barrier).result(DEADLINE)
            for future in adjusting:
                future.result(DEADLINE)
            assert in_flight(pair) == {"requests": 0, "tokens": 0}


def test_an_error_in_the_block_gives_back_what_it_holds_then(pair: hardcap.Limiter) -> None:
    with contextlib.suppress(LookupError), pair.admit(1, tokens=2) as permit:
        assert permit.adjust(tokens=9)
        raise LookupError
    assert in_flight(pair) == {"requests": 0, "tokens": 0}
    assert_all_free(pair, 3)


def test_a_refusal_is_logged_like_any_other(limiter: hardcap.Limiter, caplog: pytest.LogCaptureFixture) -> None:
    with limiter.admit() as permit:
        assert not permit.adjust(4)
    assert f"limiter '{limiter.name}'" in caplog.text


def test_a_release_in_the_middle_is_no_error(limiter: hardcap.Limiter) -> None:
    """Whoever adjusts looks at what is held before it knows that nobody was faster."""
    for _ in range(50):
        permit = limiter.admit(3)
        with ThreadPoolExecutor(2) as pool:
            adjusted = [pool.submit(permit.adjust, 1 + number % 3) for number in range(8)]
            released = pool.submit(permit.release)
        assert {answer.result(DEADLINE) for answer in adjusted} <= {True, False}
        assert released.result(DEADLINE)
    assert_all_free(limiter, 3)


def test_a_close_in_the_middle_is_false(opened: Open) -> None:
    with opened(limit=9) as limiter:
        for _ in range(20):
            other = opened()
            permit = other.admit(5)
            with ThreadPoolExecutor(2) as pool:
                adjusting = [pool.submit(adjust_until_false, permit, number) for number in range(2)]
                other.close()
                assert [one.result(DEADLINE) for one in adjusting] == [False, False]
        assert_all_free(limiter, 9)


def adjust_until_false(permit: hardcap.Permit, seed: int) -> bool:
    amounts = itertools.cycle((1 + seed, 4, 2, 3))
    with contextlib.suppress(hardcap.SegmentClosed):
        while permit.adjust(next(amounts)):
            pass
    return not permit.released
