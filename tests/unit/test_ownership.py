"""Claiming a slot: which one, in what order it is written, and what becomes of one that is not clean."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from hardcap import layout, locks, ownership
from hardcap.errors import SlotsExhausted
from hardcap.layout import high, pack
from hardcap.ownership import claim
from hardcap.slots import is_live, mark_free, totals
from hardcap.strict import Strict
from tests.support.memory import WRITES, Memory, memory
from tests.support.scenarios import LEFT, LIMITS, LIVE, Left, survivor


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setattr(ownership, "CLAIM_PATIENCE", 0.05)
    with memory("strict", {"requests": 5, "tokens": 9}, slots=3) as made:
        yield made


def field(made: Memory, name: int, slot: int = 0) -> int:
    return made.words.load(layout.slot(slot) + name)


def test_the_first_free_slot(made: Memory) -> None:
    owners = [made.process() for _ in range(3)]
    assert [claim(process) for process in owners] == [0, 1, 2]
    mark_free(owners[1], 1)
    owners[1].die()
    assert claim(made.process()) == 1


def test_the_kernel_knows_its_owner(made: Memory) -> None:
    process, other = made.process(), made.process()
    claim(process)
    assert locks.is_taken(other.lock, layout.SLOT_LOCKS)
    process.die()
    assert not locks.is_taken(other.lock, layout.SLOT_LOCKS)


def test_what_is_written(made: Memory) -> None:
    process = made.process()
    before = time.time_ns()
    claim(process)
    assert field(made, layout.S_PID) == os.getpid()
    assert before <= field(made, layout.S_STARTED_AT) <= time.time_ns()
    assert field(made, layout.S_STATE) == pack(layout.STATE_LIVE, 1)
    assert is_live(process, 0)
    mark_free(process, 0)
    assert field(made, layout.S_STATE) == pack(layout.STATE_FREE, 1)
    assert not is_live(process, 0)
    claim(made.process())
    assert made.words.load(layout.H_HIGH_WATER) == 2


def test_the_mark_is_raised_first_and_the_slot_marked_live_last(made: Memory) -> None:
    order: list[int] = []
    process = made.process()
    made.words.watch = lambda kind, index: order.append(index) if kind in WRITES else None
    claim(process)
    made.words.undisturbed()
    assert order[0] == layout.H_HIGH_WATER
    assert order[-1] == layout.slot(0) + layout.S_STATE
    assert set(order[1:-1]) <= set(range(layout.slot(0) + layout.S_PID, layout.slot(1)))


def test_the_mark_goes_up_only(made: Memory) -> None:
    made.words.store(layout.H_HIGH_WATER, 3)
    claim(made.process())
    assert made.words.load(layout.H_HIGH_WATER) == 3


def test_two_raise_the_mark_at_once(made: Memory) -> None:
    first, second = made.process(), made.process()
    claimed: list[int] = []
    made.words.before("compare_exchange", layout.H_HIGH_WATER, lambda: claimed.append(claim(second)))
    claimed.append(claim(first))
    assert claimed == [1, 0]
    assert made.words.load(layout.H_HIGH_WATER) == 2


def test_each_owner_is_another_incarnation(made: Memory) -> None:
    for number in range(1, 4):
        process = made.process()
        assert claim(process) == 0
        assert high(field(made, layout.S_STATE)) == number
        mark_free(process, 0)
        process.die()


def test_totals_stay_and_a_new_owner_notes_where_it_began(made: Memory) -> None:
    process = made.process()
    admission = Strict(process, claim(process))
    for _ in range(3):
        admission.reserve(((0, 1),), 0)
    admission.release(((0, 3),))
    admission.refuse(1)
    assert totals(process, 0) == [3, 1, 0, 1, 0, 0]
    mark_free(process, 0)
    process.die()
    assert claim(made.process()) == 0
    assert totals(process, 0) == [3, 1, 0, 1, 0, 0]
    assert [field(made, layout.S_BASELINE + k) for k in range(6)] == [3, 1, 0, 1, 0, 0]


def test_a_dead_owners_permit_is_not_the_new_ones(made: Memory) -> None:
    made.words.store(layout.slot(0) + layout.S_OLDEST_PERMIT, 77)
    claim(made.process())
    assert field(made, layout.S_OLDEST_PERMIT) == 0


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
def test_a_slot_that_is_not_clean_is_recovered_not_taken_over(left: Left) -> None:
    """Whoever claims sweeps like anyone, and takes another slot; the next one finds the recovered one."""
    dirty = any(map(any, left.owners[0]))
    with memory("strict", LIMITS, slots=6) as made:
        survivor(made)
        left.put(made)
        slots = [claim(made.process()) for _ in range(len(left.owners) + 1)]
        assert sorted(slots) == list(range(1, len(left.owners) + 2))
        assert (slots[0] != 1) is dirty
        assert (made.count(0), made.count(1)) == LIVE
        assert [made.words.load(layout.slot_word(slot, k)) for slot in slots for k in range(2)] == [0] * 2 * len(slots)


def test_no_slot_to_be_had(made: Memory) -> None:
    for _ in range(3):
        claim(made.process())
    late = made.process()
    with pytest.raises(
        SlotsExhausted, match="found slot table full, 3 live, expected a free slot; raise max_processes"
    ):
        claim(late)
    assert not locks.is_taken(made.process().lock, layout.REAPER_BYTE)


def test_a_slot_that_is_not_settled_yet_is_nobodys(made: Memory) -> None:
    """Somebody is in the middle of something: what is pending in the dead slot cannot be told yet."""
    busy, other = made.process(), made.process()
    claim(busy)
    made.words.store(layout.slot_word(0, 0), pack(0, 1))
    LEFT["pending, counted"].put(made)
    assert claim(other) == 2
    with pytest.raises(SlotsExhausted):
        claim(made.process())
    made.words.store(layout.slot_word(0, 0), 0)
    assert claim(made.process()) == 1
    assert made.count() == 0


def test_the_living_are_told_from_the_dead_that_cannot_be_recovered_yet(made: Memory) -> None:
    """One is cut in half by its death, while another never pauses."""
    living, _dead = made.process(), made.process()
    assert (claim(living), claim(made.process())) == (0, 1)
    for slot in (0, 2):
        made.words.store(layout.slot_word(slot, 0), pack(0, 1))
    made.words.store(layout.H_HIGH_WATER, 3)
    with pytest.raises(SlotsExhausted, match="slot table full, 2 live, 1 of the dead not recovered yet"):
        claim(made.process())
