"""Reserve and release: one step that decides and counts, all or nothing, given back exactly once."""

from __future__ import annotations

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free, assert_sane
from tests.support.views import in_flight, nothing_changes

Amounts = dict[str, int]
NAMED = [
    ((), {}, {"requests": 1, "tokens": 0}),
    ((2,), {}, {"requests": 2, "tokens": 0}),
    ((2,), {"tokens": 5}, {"requests": 2, "tokens": 5}),
    ((1,), {"tokens": 5}, {"requests": 1, "tokens": 5}),
    ((), {"tokens": 5}, {"requests": 0, "tokens": 5}),
    ((), {"tokens": 5, "requests": 0}, {"requests": 0, "tokens": 5}),
    ((), {"tokens": 0, "requests": 3}, {"requests": 3, "tokens": 0}),
    ((2,), {"tokens": 0}, {"requests": 2, "tokens": 0}),
]
named = pytest.mark.parametrize(("position", "names", "taken"), NAMED)


def test_reserves_to_the_limit_and_then_refuses(limiter: hardcap.Limiter) -> None:
    assert [limiter.reserve() for _ in range(5)] == [True, True, True, False, False]
    assert (limiter.in_flight, limiter.held, limiter.available) == (3, 3, 0)


def test_release_gives_back(limiter: hardcap.Limiter) -> None:
    for _ in range(10):
        assert limiter.reserve(3)
        assert not limiter.reserve()
        limiter.release()
        assert limiter.reserve()
        limiter.release(3)
    assert_all_free(limiter, 3)


def test_one_cap_for_all_who_are_attached(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened(limit=3)
    assert limiter.reserve(2)
    assert not other.reserve(2)
    assert other.reserve()
    assert not limiter.reserve()
    assert limiter.in_flight == other.in_flight == 3
    assert (limiter.held, other.held) == (2, 1)
    limiter.release(2)
    other.release()
    assert_all_free(other, 3)


def test_a_free_unit_is_never_refused(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(2)
    assert not limiter.reserve(2)
    assert limiter.reserve(1)


@named
def test_reserve_and_release_by_position_and_by_name(
    pair: hardcap.Limiter, position: tuple[int, ...], names: Amounts, taken: Amounts
) -> None:
    assert pair.reserve(*position, **names)
    assert in_flight(pair) == taken
    pair.release(*position, **names)
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


@named
def test_admit_by_position_and_by_name(
    pair: hardcap.Limiter, position: tuple[int, ...], names: Amounts, taken: Amounts
) -> None:
    with pair.admit(*position, **names) as permit:
        assert in_flight(pair) == taken
        assert permit.amounts == {resource: units for resource, units in taken.items() if units}
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


@pytest.mark.parametrize(
    ("wanted", "refusing"),
    [
        ({"requests": 1, "tokens": 11}, "tokens"),
        ({"tokens": 11, "requests": 1}, "tokens"),
        ({"requests": 4, "tokens": 1}, "requests"),
        ({"tokens": 1, "requests": 4}, "requests"),
    ],
)
def test_several_resources_are_all_taken_or_none(pair: hardcap.Limiter, wanted: Amounts, refusing: str) -> None:
    assert not pair.reserve(**wanted)
    assert in_flight(pair) == {"requests": 0, "tokens": 0}
    assert pair.snapshot().totals.rejected == {"requests": 0, "tokens": 0} | {refusing: 1}
    assert pair.reserve(3, tokens=10)


def test_four_resources(opened: Open) -> None:
    limits = {"a": 1, "b": 2, "c": 3, "d": 4}
    limiter = opened(limits=limits)
    assert limiter.reserve(**limits)
    for resource in limits:
        assert not limiter.reserve(**{resource: 1})
    assert in_flight(limiter) == limits
    limiter.release(**limits)
    assert in_flight(limiter) == dict.fromkeys(limits, 0)


def test_the_largest_amount_and_the_largest_limit(opened: Open) -> None:
    largest = 2**31 - 1
    limiter = opened(limit=largest)
    assert limiter.reserve(largest)
    assert limiter.in_flight == largest
    assert not limiter.reserve()
    assert not limiter.reserve(largest)
    assert_sane(limiter.snapshot())
    limiter.release(largest)
    assert limiter.available == largest


def test_headroom_leaves_units_free(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(headroom=1)
    assert limiter.reserve(headroom=1)
    assert not limiter.reserve(headroom=1)
    assert limiter.reserve(headroom=0)
    limiter.release(3)
    assert not limiter.reserve(headroom=3)
    assert not limiter.reserve(headroom=2**31 - 1)
    assert limiter.in_flight == 0


def test_headroom_is_of_each_resource_asked_for(pair: hardcap.Limiter) -> None:
    assert not pair.reserve(1, tokens=9, headroom=2)
    assert not pair.reserve(2, tokens=1, headroom=2)
    assert pair.reserve(1, tokens=8, headroom=2)
    pair.release(1, tokens=8)
    assert pair.reserve(tokens=5, headroom=5)


def test_admit_with_headroom(limiter: hardcap.Limiter) -> None:
    with limiter.admit(2, headroom=1), pytest.raises(hardcap.CapExceeded):
        limiter.admit(headroom=1)


@pytest.mark.parametrize(("held", "asked"), [(0, 1), (0, 2**31 - 1), (1, 2), (2, 3)])
def test_releasing_more_than_is_held_changes_nothing(
    limiter: hardcap.Limiter, opened: Open, held: int, asked: int
) -> None:
    """B47: an unsigned word that wraps below zero is never seen."""
    other = opened(limit=3)
    assert other.reserve()
    if held:
        assert limiter.reserve(held)
    with nothing_changes(limiter), pytest.raises(hardcap.ReleaseError) as caught:
        limiter.release(asked)
    assert vars(caught.value) == {"name": limiter.name, "resource": "requests", "held": held, "requested": asked}


@pytest.mark.parametrize(
    ("asked", "resource"),
    [({"requests": 2, "tokens": 6}, "tokens"), ({"tokens": 5, "requests": 3}, "requests"), ({"tokens": 6}, "tokens")],
)
def test_all_resources_are_checked_before_any_is_released(pair: hardcap.Limiter, asked: Amounts, resource: str) -> None:
    assert pair.reserve(2, tokens=5)
    with nothing_changes(pair), pytest.raises(hardcap.ReleaseError) as caught:
        pair.release(**asked)
    assert caught.value.resource == resource
    pair.release(2, tokens=5)
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


def test_a_release_error_is_a_value_error_that_says_what_is_held(limiter: hardcap.Limiter) -> None:
    with pytest.raises(ValueError, match=f"^limiter '{limiter.name}' cannot release 1 requests: .* holds 0, "):
        limiter.release()
