"""Approximate mode's steps on words in memory: plain accesses only, and the bound, reached and not passed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hardcap import layout
from hardcap.admission import ADMITTED
from hardcap.approximate import Approximate
from hardcap.ownership import claim
from tests.support.memory import WRITES, Memory, memory

ONE = ((0, 1),)
BOTH = ((0, 1), (1, 4))


@pytest.fixture
def made() -> Iterator[Memory]:
    with memory("approximate", {"requests": 3, "tokens": 9}, slots=8) as made:
        yield made


def owner(made: Memory) -> Approximate:
    process = made.process()
    return Approximate(process, claim(process))


def in_flight(made: Memory, index: int = 0) -> int:
    return sum(made.held(slot, index) for slot in range(made.shape.slots))


def test_no_read_modify_write_on_the_way_in_or_out(made: Memory) -> None:
    """And no write to anything but one's own slot."""
    mine = owner(made)
    seen: set[tuple[str, int]] = set()
    made.words.watch = lambda kind, index: seen.add((kind, index))
    assert mine.reserve(BOTH, 0) == ADMITTED
    mine.release(BOTH)
    assert mine.reserve(((0, 4),), 0) == 0
    made.words.undisturbed()
    assert {kind for kind, _ in seen} == {"load", "store"}
    assert {index for kind, index in seen if kind in WRITES} <= set(range(layout.slot(0), layout.slot(1)))


def test_the_sum_of_all_slots_decides(made: Memory) -> None:
    owners = [owner(made) for _ in range(4)]
    assert [each.reserve(ONE, 0) for each in owners] == [ADMITTED, ADMITTED, ADMITTED, 0]
    owners[1].release(ONE)
    assert owners[3].reserve(ONE, 0) == ADMITTED
    assert in_flight(made) == 3


def test_a_slot_that_is_new_is_seen(made: Memory) -> None:
    first = owner(made)
    assert first.reserve(ONE, 0) == ADMITTED
    second = owner(made)
    assert second.reserve(((0, 2),), 0) == ADMITTED
    assert first.reserve(ONE, 0) == 0


@pytest.mark.parametrize("amount", [1, 2, 3])
@pytest.mark.parametrize("crowd", [1, 2, 5])
def test_the_bound_is_reached_and_not_passed(made: Memory, crowd: int, amount: int) -> None:
    """Each scans before any of them writes: ``limit + (W - 1) * a`` from ``limit - a`` held."""
    limit, wanted = 3, ((0, amount),)
    owners = [owner(made) for _ in range(crowd)]
    if amount < limit:
        assert owners[0].reserve(((0, limit - amount),), 0) == ADMITTED
    answers: list[int] = []

    def enter(number: int) -> None:
        if number < crowd:
            own = layout.slot_word(number, 0)
            made.words.before("store", own, lambda: enter(number + 1))
            answers.append(owners[number].reserve(wanted, 0))

    enter(0)
    assert answers == [ADMITTED] * crowd
    assert in_flight(made) == limit + (crowd - 1) * amount
    assert [each.reserve(ONE, 0) for each in owners] == [0] * crowd


def test_it_comes_down_again_by_itself(made: Memory) -> None:
    owners = [owner(made) for _ in range(2)]
    made.words.before("store", layout.slot_word(0, 0), lambda: owners[1].reserve(((0, 3),), 0))
    assert owners[0].reserve(((0, 3),), 0) == ADMITTED
    assert in_flight(made) == 6
    owners[0].release(((0, 3),))
    assert owners[0].reserve(ONE, 0) == 0
    owners[1].release(ONE)
    assert owners[0].reserve(ONE, 0) == ADMITTED


def test_all_or_nothing(made: Memory) -> None:
    mine = owner(made)
    assert mine.reserve(((0, 1), (1, 10)), 0) == 1
    assert mine.reserve(((1, 10), (0, 1)), 0) == 1
    assert mine.reserve(((1, 9), (0, 4)), 0) == 0
    assert (in_flight(made, 0), in_flight(made, 1)) == (0, 0)


def test_a_reservation_in_the_middle_of_one_is_refused(made: Memory) -> None:
    """A second one between scan and write would break the bound."""
    mine = owner(made)
    answers: list[int] = []
    made.words.before("store", layout.slot_word(0, 0), lambda: answers.append(mine.reserve(ONE, 0)))
    assert mine.reserve(ONE, 0) == ADMITTED
    assert answers == [0]
    assert in_flight(made) == 1


def test_a_release_in_the_middle_shows_at_once_and_is_written_on_the_way_out(made: Memory) -> None:
    mine = owner(made)
    mine.reserve(((0, 2),), 0)
    shown: list[tuple[int, int]] = []

    def release() -> None:
        mine.release(((0, 2),))
        shown.append((mine.held(0), made.held(0)))

    made.words.before("store", layout.slot_word(0, 0), release)
    assert mine.reserve(ONE, 0) == ADMITTED
    assert shown == [(0, 2)]
    assert (mine.held(0), made.held(0)) == (1, 1)


@pytest.mark.parametrize("limit", [layout.MAX_LIMIT + 1, 2**63, layout.U64])
def test_a_damaged_limit_admits_nobody(made: Memory, limit: int) -> None:
    made.words.store(layout.limit_word(0), limit)
    assert owner(made).reserve(ONE, 0) == 0


def test_give_back_all(made: Memory) -> None:
    mine, other = owner(made), owner(made)
    mine.reserve(BOTH, 0)
    other.reserve(BOTH, 0)
    mine.give_back_all()
    assert (in_flight(made, 0), in_flight(made, 1)) == (1, 4)
