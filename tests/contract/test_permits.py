"""Permits: what one reservation took, given back once, whoever asks and however often."""

from __future__ import annotations

import copy
import gc
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import in_flight, nothing_changes, owner

TICK = 0.01  # seconds: the kernel's clock tick at its coarsest


def test_released_once(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit(2)
    assert (permit.released, limiter.in_flight) == (False, 2)
    assert permit.release() is True
    assert (permit.released, limiter.in_flight) == (True, 0)
    with nothing_changes(limiter):
        assert permit.release() is False
    assert_all_free(limiter, 3)


def test_amounts(pair: hardcap.Limiter) -> None:
    with pair.admit(tokens=5) as some, pair.admit(2, tokens=5) as more:
        assert some.amounts == {"tokens": 5}
        assert more.amounts == {"requests": 2, "tokens": 5}
    assert more.amounts == {"requests": 2, "tokens": 5}
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


def test_threads_race_to_release_each_permit(opened: Open) -> None:
    threads, permits = 8, 40
    limiter = opened(limit=permits)
    taken, barrier = [limiter.admit() for _ in range(permits)], Barrier(threads)

    def release_all(_thread: int) -> int:
        barrier.wait()
        return sum(permit.release() for permit in taken)

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(release_all, range(threads))) == permits
    assert limiter.snapshot().totals.released == permits
    assert_all_free(limiter, permits)


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_with_block_releases_whatever_ends_it(limiter: hardcap.Limiter, error: type[BaseException]) -> None:
    with pytest.raises(error), limiter.admit(2) as permit:
        assert limiter.in_flight == 2
        raise error
    assert permit.released
    assert_all_free(limiter, 3)


def test_a_with_block_may_release_early(limiter: hardcap.Limiter) -> None:
    with limiter.admit() as permit:
        assert permit.release()
        assert limiter.reserve(3)
    assert limiter.in_flight == 3


def test_forgotten_while_held_it_is_released_with_a_warning(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit(2)
    with pytest.warns(ResourceWarning, match=f"'requests': 2.*'{limiter.name}' was never released"):
        del permit
    assert_all_free(limiter, 3)


def test_forgotten_in_a_cycle(limiter: hardcap.Limiter) -> None:
    knot: list[object] = [limiter.admit()]
    knot.append(knot)
    with pytest.warns(ResourceWarning, match="never released"):
        del knot
        gc.collect()
    assert_all_free(limiter, 3)


def test_forgotten_after_the_release_it_is_silent(limiter: hardcap.Limiter) -> None:
    limiter.admit().release()
    gc.collect()
    assert_all_free(limiter, 3)


def test_a_permit_keeps_its_limiter(limiter: hardcap.Limiter) -> None:
    permit = pickle.loads(pickle.dumps(limiter)).admit()
    gc.collect()
    assert limiter.in_flight == 1
    assert permit.release()
    assert_all_free(limiter, 3)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda permit, n=n: pickle.dumps(permit, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
def test_never_copied(limiter: hardcap.Limiter, way: Callable[[object], object]) -> None:
    """B36: a permit is never two."""
    with limiter.admit() as permit, pytest.raises(TypeError, match="cannot be pickled or copied"):
        way(permit)
    assert_all_free(limiter, 3)


def test_void_once_its_limiter_is_closed(limiter: hardcap.Limiter, opened: Open) -> None:
    """B48: and another limiter of this process is not touched."""
    leaving = opened()
    assert limiter.reserve()
    permit = leaving.admit(2)
    leaving.close()
    assert limiter.in_flight == 1
    assert permit.released
    assert permit.release() is False
    del permit
    assert limiter.in_flight == limiter.held == 1
    limiter.release()
    assert_all_free(limiter, 3)


def test_a_bare_release_and_a_permit_never_give_back_twice(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit(2)
    limiter.release(2)
    with pytest.raises(hardcap.ReleaseError):
        permit.release()
    assert permit.release() is False
    assert_all_free(limiter, 3)


def test_the_oldest_permit_is_shown(limiter: hardcap.Limiter) -> None:
    assert owner(limiter).oldest_permit_at is None
    times = [time.time()]
    permits = []
    for _ in range(3):
        permits.append(limiter.admit())
        times.append(time.time())
    for number in (1, 0, 2):  # not in the order they came
        oldest = owner(limiter).oldest_permit_at
        first = min(k for k in range(3) if not permits[k].released)
        assert oldest is not None
        assert times[first] - TICK <= oldest <= times[first + 1]
        permits[number].release()
    assert owner(limiter).oldest_permit_at is None


def test_the_oldest_permit_of_a_forgotten_one(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit()
    assert owner(limiter).oldest_permit_at is not None
    with pytest.warns(ResourceWarning):
        del permit
    assert owner(limiter).oldest_permit_at is None


def test_a_bare_reservation_shows_no_age(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve()
    assert owner(limiter).oldest_permit_at is None


def test_no_room(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(3)
    with pytest.raises(hardcap.CapExceeded) as caught:
        limiter.admit()
    name = limiter.name
    fields = {"name": name, "resource": "requests", "limit": 3, "in_flight": 3, "requested": 1, "headroom": 0}
    assert vars(caught.value) == fields
    assert str(caught.value) == f"limiter '{name}' is full: 3 of 3 requests in flight"
    assert owner(limiter).oldest_permit_at is None


def test_no_room_beside_the_headroom(limiter: hardcap.Limiter) -> None:
    with pytest.raises(hardcap.CapExceeded) as caught, limiter.admit():
        limiter.admit(headroom=2)
    assert str(caught.value) == (
        f"limiter '{limiter.name}' is full: 1 of 3 requests in flight, 1 more requested with 2 to stay free"
    )


@pytest.mark.parametrize("timeout", [0, 0.01])
@pytest.mark.parametrize(("asked", "text"), [((4, 0), "4 requested"), ((2, 2), "2 requested with 2 to stay free")])
def test_what_can_never_fit_is_told(
    limiter: hardcap.Limiter, timeout: float, asked: tuple[int, int], text: str
) -> None:
    amount, headroom = asked
    with pytest.raises(hardcap.CapExceeded) as caught:
        limiter.admit(amount, headroom=headroom, timeout=timeout)
    assert str(caught.value) == (
        f"limiter '{limiter.name}' has no room: 0 of 3 requests in flight, {text}, which never fit while the limit is 3"
    )
    assert (caught.value.requested, caught.value.headroom) == asked


def test_no_room_for_several(pair: hardcap.Limiter) -> None:
    assert pair.reserve(1, tokens=8)
    with pytest.raises(hardcap.CapExceeded) as caught:
        pair.admit(1, tokens=3)
    assert str(caught.value) == f"limiter '{pair.name}' is full: 8 of 10 tokens in flight, 3 more requested"
    assert (caught.value.resource, caught.value.requested) == ("tokens", 3)
    assert in_flight(pair) == {"requests": 1, "tokens": 8}
