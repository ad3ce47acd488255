"""One sweep: what it recovers, what it leaves for a quiet instant, whom it leaves alone, and when it is due."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import hardcap
from hardcap import layout, locks, recovery
from hardcap.admission import ADMITTED
from hardcap.approximate import Approximate
from hardcap.config import Config
from hardcap.layout import HIGH_ONE, pack
from hardcap.ownership import claim
from hardcap.recovery import Swept, is_due, sweep
from hardcap.strict import Strict
from tests.support.memory import Memory, memory
from tests.support.scenarios import LEFT, LIMITS, LIVE, Left, faults_at_the_end, stops, survivor
from tests.support.segments import attach


@pytest.fixture
def made() -> Iterator[Memory]:
    with memory("strict", LIMITS) as made:
        yield made


left_by_dead_owners = pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)


@left_by_dead_owners
def test_one_sweep_recovers_what_dead_owners_left(made: Memory, left: Left) -> None:
    process = survivor(made)
    left.put(made)
    something = any(held or pending for words in left.owners for held, pending in words)
    assert sweep(process) == Swept(len(left.owners), changed=something)
    assert faults_at_the_end(made) == []
    assert made.words.load(layout.H_RECOVERED) == len(left.owners)
    assert sweep(process) == Swept(0, changed=False)
    assert claim(made.process()) == 1


@left_by_dead_owners
def test_in_a_real_file(name: str, segment_dir: Path, left: Left) -> None:
    segment = attach(Config(name, limits=LIMITS, directory=segment_dir, max_processes=8))
    admission = Strict(segment, claim(segment))
    admission.reserve(((0, 2), (1, 3)), 0)
    left.put(segment)
    assert sweep(segment).owners == len(left.owners)
    assert [segment.words.load(layout.global_word(index)) % HIGH_ONE for index in (0, 1)] == [2, 3]
    assert admission.reserve(((0, 98), (1, 97)), 0) == ADMITTED
    segment.close()


def test_settle_waits_for_a_quiet_instant_and_return_does_not(made: Memory) -> None:
    process = survivor(made)
    LEFT["held and pending, counted"].put(made)
    busy = layout.slot_word(0, 0)
    made.words.store(busy, pack(LIVE[0], 1))
    assert sweep(process) == Swept(0, changed=True)
    assert (made.held(1), made.pending(1)) == (0, 2)
    assert (made.count(0), made.count(1)) == (LIVE[0] + 2, LIVE[1]), "the other resource was quiet"
    assert sweep(process) == Swept(0, changed=False)
    assert claim(made.process()) == 2, "the slot is not to be had meanwhile"
    made.words.store(busy, pack(LIVE[0], 0))
    assert sweep(process) == Swept(1, changed=True)
    assert faults_at_the_end(made, live=1) == ["I5: slot 2 is not free"]


@pytest.mark.parametrize("left", ["held", "pending, counted", "pending, not counted"])
def test_return_and_settle_move_the_version(made: Memory, left: str) -> None:
    """Like every change of a count, and also where settle finds the count right."""
    process = survivor(made)
    LEFT[left].put(made)
    before = made.version()
    sweep(process)
    assert made.version() == before + 1


def test_one_settles_at_a_time(made: Memory) -> None:
    process, rival = survivor(made), made.process()
    LEFT["held and pending, counted"].put(made)
    assert locks.take(rival.lock, layout.REAPER_BYTE)
    assert sweep(process) == Swept(0, changed=True)
    assert (made.held(1), made.pending(1)) == (0, 2)
    locks.drop(rival.lock, layout.REAPER_BYTE)
    assert sweep(process) == Swept(1, changed=True)
    assert faults_at_the_end(made) == []


def test_settle_gives_up_after_so_many_tries(made: Memory) -> None:
    """A change before every try: it stays counted, and the next sweep finds it."""
    process = survivor(made)
    LEFT["pending, not counted"].put(made)
    swaps = itertools.count()

    def disturb(kind: str, index: int) -> None:
        if (kind, index) == ("compare_exchange", layout.global_word(0)):
            next(swaps)
            made.words.fetch_add(layout.global_word(0), HIGH_ONE)

    made.words.watch = disturb
    assert sweep(process) == Swept(0, changed=False)
    made.words.undisturbed()
    assert next(swaps) == recovery.SETTLE_TRIES
    assert made.count() == LIVE[0]
    assert sweep(process) == Swept(1, changed=True)
    assert faults_at_the_end(made) == []


def test_the_living_are_left_alone(made: Memory) -> None:
    """Also the one who sweeps, whose own lock it must not take for a dead one's."""
    process, other = survivor(made), made.process()
    Strict(other, claim(other)).reserve(((0, 1),), 0)
    made.words.store(layout.slot_word(1, 1), pack(0, 7))
    before = [made.words.load(word) for word in range(layout.slot(2))]
    assert sweep(process) == sweep(other) == Swept(0, changed=False)
    assert [made.words.load(word) for word in range(layout.slot(2))] == before


def test_a_sweep_keeps_no_lock(made: Memory) -> None:
    process, other = survivor(made), made.process()
    LEFT["two owners"].put(made)
    made.words.store(layout.slot_word(0, 0), pack(LIVE[0], 1))  # so that settle has to leave them
    sweep(process)
    for byte in (layout.REAPER_BYTE, layout.SLOT_LOCKS + 1, layout.SLOT_LOCKS + 2):
        assert not locks.is_taken(other.lock, byte)
    assert locks.is_taken(other.lock, layout.SLOT_LOCKS)


def test_approximate_just_clears_the_slot() -> None:
    with memory("approximate", LIMITS) as made:
        process, other = made.process(), made.process()
        Approximate(process, claim(process)).reserve(((0, 1),), 0)
        Approximate(other, claim(other)).reserve(((0, 2), (1, 5)), 0)
        other.die()
        assert sweep(process) == Swept(1, changed=True)
        assert [made.held(0), made.held(1), made.held(1, 1)] == [1, 0, 0]
        assert made.words.load(layout.global_word(0)) == 0
        assert sweep(process) == Swept(0, changed=False)


def test_approximate_reapers_that_stop_anywhere() -> None:
    for number in range(12):
        with memory("approximate", LIMITS) as made:
            process, other = made.process(), made.process()
            Approximate(process, claim(process)).reserve(((0, 1),), 0)
            Approximate(other, claim(other)).reserve(((0, 2), (1, 5)), 0)
            other.die()
            stopped = stops(made, partial(sweep, process), number)
            sweep(process)
            assert [made.held(0), made.held(1), made.held(1, 1)] == [1, 0, 0]
            assert not made.words.load(layout.slot(1)) & layout.STATE_LIVE
    assert not stopped


@pytest.mark.parametrize(
    ("ago", "due"), [(0, False), (9_999_999, False), (10_000_000, True), (10**15, True), (-1, True)]
)
def test_when_a_sweep_is_due(made: Memory, monkeypatch: pytest.MonkeyPatch, ago: int, due: bool) -> None:
    """Once in 10 ms on the whole segment; the clock of another boot, ahead of ours, is no reason to wait."""
    now = 5 * 10**15
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    made.words.store(layout.H_SWEPT_AT, now - ago)
    assert is_due(made.process()) is due
    assert is_due(made.process()) is False or not due
    assert made.words.load(layout.H_SWEPT_AT) == (now if due else now - ago)


def test_of_two_that_look_at_once_one_sweeps(made: Memory) -> None:
    first, second = made.process(), made.process()
    answers: list[bool] = []
    made.words.before("compare_exchange", layout.H_SWEPT_AT, lambda: answers.append(is_due(second)))
    answers.append(is_due(first))
    assert answers == [True, False]


def test_an_owner_that_leaves_under_the_eyes_of_a_sweep_is_not_counted_as_dead(
    monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path
) -> None:
    """It was there at the first look, and its lock free at the second."""
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        leaver = hardcap.open(name, directory=segment_dir)
        look = recovery._Sweep._in_use

        def leave(self: recovery._Sweep) -> list[int]:
            found = look(self)
            leaver.close()
            return found

        monkeypatch.setattr(recovery._Sweep, "_in_use", leave)
        assert limiter.reap() == 0
        assert limiter.snapshot().totals.recovered_owners == 0
