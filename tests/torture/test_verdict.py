"""The ledger and its judge are right: they judge all the others."""

from __future__ import annotations

import pytest

from tests.torture.ledger import Change, Page, Pages, Stay, now
from tests.torture.verdict import judge


def stay(admitted: int, ended: int, units: int = 1, called: int | None = None) -> Stay:
    return Stay(admitted if called is None else called, admitted, ended, (units,))


@pytest.mark.parametrize(
    ("stays", "violations", "peak"),
    [
        ([stay(1, 3), stay(2, 4)], 0, 2),
        ([stay(1, 3), stay(2, 4), stay(3, 5)], 0, 2),  # one leaves as the other comes
        ([stay(1, 4), stay(2, 5), stay(3, 6)], 1, 3),
        ([stay(1, 4), stay(2, 5, units=2)], 1, 3),
        ([stay(1, 9), stay(2, 9), stay(3, 4), stay(5, 6)], 2, 3),
    ],
)
def test_more_than_the_limit_at_one_instant_is_seen(stays: list[Stay], violations: int, peak: int) -> None:
    verdict = judge(stays, [], [2], excess=0)
    assert (verdict.violations, verdict.peak) == (violations, peak)
    assert judge(stays, [], [2], excess=1).violations == 0


@pytest.mark.parametrize(
    ("called", "admitted", "violations"),
    [
        (5, 15, 0),  # the limit before may have been in force
        (11, 25, 0),  # it may have been until set_limit returned
        (21, 25, 1),  # set_limit had returned
    ],
)
def test_a_lowered_limit_is_in_force_once_set_limit_has_returned(called: int, admitted: int, violations: int) -> None:
    lowered = [Change(called=10, returned=20, limit=1)]
    stays = [stay(1, 100), stay(admitted, 100, called=called)]
    assert judge(stays, lowered, [2], excess=0).violations == violations


def test_a_change_that_never_returned_may_be_in_force_or_not() -> None:
    changes = [Change(10, 20, 1), Change(30, 1 << 62, 2)]
    assert judge([stay(1, 100), stay(40, 100)], changes, [2], excess=0).violations == 0
    assert judge([stay(1, 100), stay(25, 100)], changes, [2], excess=0).violations == 1


def test_each_resource_is_judged() -> None:
    stays = [Stay(1, 1, 9, (1, 2)), Stay(2, 2, 9, (1, 2))]
    assert judge(stays, [], [2, 4], excess=0).violations == 0
    assert judge(stays, [], [2, 3], excess=0).violations == 1


@pytest.fixture
def page() -> Page:
    return Pages(1).free[0]


def test_a_page_tells_what_was_noted(page: Page) -> None:
    called = now()
    ended, unended = page.admitted(called, (2, 0, 1)), page.admitted(called, (1, 1, 1))
    page.ending(ended)
    page.changed(page.changing(7))
    page.changing(8)
    page.refused()
    first, second, changed, unreturned = page.read(1 << 60, 3)
    assert isinstance(first, Stay) and called <= first.admitted <= first.ended <= now()
    assert first.amounts == (2, 0, 1)
    assert isinstance(second, Stay) and second.ended == 1 << 60, "it lasted until the kill"
    assert isinstance(changed, Change) and changed.limit == 7 and changed.returned <= now()
    assert isinstance(unreturned, Change) and unreturned.returned == 1 << 62
    assert unended and page.clear() == 1
    assert list(page.read(1 << 60, 3)) == []


def test_an_admission_that_was_cut_in_half_is_none(page: Page) -> None:
    page._begin(now(), 1)
    assert list(page.read(1 << 60, 1)) == []
