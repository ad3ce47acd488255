"""Recovery, step by step, on words in memory: whoever stops wherever, and whoever comes between, the end is the same.

Each scenario gives what is wrong at its end. That they see what they look for is shown by variants that are broken.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hardcap import layout, locks, recovery
from hardcap.admission import ADMITTED
from hardcap.amounts import Wanted
from hardcap.layout import HIGH_ONE, low
from hardcap.strict import Strict
from tests.support.scenarios import (
    LEFT,
    OPERATIONS,
    RIVALS,
    Faults,
    Left,
    Operation,
    Rival,
    claimer_stops,
    in_the_middle_of_a_sweep,
    owner_stops,
    reapers_stop,
    sweep_in_the_middle_of,
)

left_by_dead_owners = pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@left_by_dead_owners
def test_reapers_that_stop_anywhere(left: Left) -> None:
    assert reapers_stop(left, deaths=2) == []


@each_operation
def test_owners_that_stop_anywhere_and_a_reaper_too(operation: Operation) -> None:
    assert owner_stops(operation, deaths=2) == []


def test_claimers_that_stop_anywhere() -> None:
    assert claimer_stops() == []


@each_operation
def test_a_sweep_in_the_middle_of_anything(operation: Operation) -> None:
    assert sweep_in_the_middle_of(operation) == []


@pytest.mark.parametrize("rival", RIVALS.values(), ids=RIVALS)
def test_anything_in_the_middle_of_a_sweep(rival: Rival) -> None:
    assert in_the_middle_of_a_sweep(rival) == []


# --- broken variants: each must be seen ------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def return_keeps_nothing_pending(patch: pytest.MonkeyPatch) -> None:
    def give_back(self: recovery._Sweep, own: int, index: int) -> None:
        held = low(self._words.load(own))
        self._words.store(own, self._words.load(own) - held)
        self._words.fetch_add(layout.global_word(index), HIGH_ONE - held)

    patch.setattr(recovery._Sweep, "_return", give_back)


def settle_never(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "SETTLE_TRIES", 0)


def settle_takes_pending_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def total(self: recovery._Sweep, index: int) -> int:
        words = self._words.column(layout.slot_word(0, index), self._segment.high_water(), layout.SLOT_STEP)
        return sum(low(word) for slot, word in enumerate(words) if slot not in self._kept)

    patch.setattr(recovery._Sweep, "_sum_if_quiet", total)


def no_version(patch: pytest.MonkeyPatch) -> None:
    def swap(self: Strict, index: int, before: int, units: int) -> bool:
        return self._words.compare_exchange(self._global[index], before, before + units)

    def put_back(self: Strict, index: int, units: int) -> None:
        self._words.fetch_add(self._global[index], -units)
        self._words.fetch_add(self._own[index], -units * HIGH_ONE)

    patch.setattr(Strict, "_swap", swap)
    patch.setattr(Strict, "_put_back", put_back)


def the_lock_is_asked_for_not_taken(patch: pytest.MonkeyPatch) -> None:
    names = {"drop": locks.drop}
    asking = SimpleNamespace(**names, take=lambda descriptor, byte: not locks.is_taken(descriptor, byte))
    patch.setattr(recovery, "locks", asking)


def reserve_announces_nothing(patch: pytest.MonkeyPatch) -> None:
    def reserve(self: Strict, wanted: Wanted, headroom: int) -> int:
        for index, units in wanted:
            word = self._look(index, units + headroom, True)
            assert word is not None
            assert self._swap(index, word, units)
            self._words.fetch_add(self._own[index], units)
        return ADMITTED

    patch.setattr(Strict, "_reserve", reserve)


def release_marks_nothing(patch: pytest.MonkeyPatch) -> None:
    def release(self: Strict, wanted: Wanted) -> None:
        for index, units in wanted:
            self._words.fetch_add(self._global[index], HIGH_ONE - units)
            self._words.fetch_add(self._own[index], -units)

    patch.setattr(Strict, "_release", release)


BROKEN: list[tuple[Patch, Callable[[], Faults]]] = [
    (return_keeps_nothing_pending, lambda: reapers_stop(LEFT["held"])),
    (settle_never, lambda: reapers_stop(LEFT["pending, counted"])),
    (settle_takes_pending_for_nothing, lambda: sweep_in_the_middle_of(OPERATIONS["reserve one"])),
    (no_version, lambda: in_the_middle_of_a_sweep(RIVALS["swap"])),
    (the_lock_is_asked_for_not_taken, lambda: in_the_middle_of_a_sweep(RIVALS["another reaper"])),
    (reserve_announces_nothing, lambda: owner_stops(OPERATIONS["reserve one"])),
    (release_marks_nothing, lambda: owner_stops(OPERATIONS["release one"])),
]


@pytest.mark.parametrize(("broken", "scenario"), BROKEN, ids=[patch.__name__ for patch, _ in BROKEN])
def test_a_broken_variant_is_seen(
    monkeypatch: pytest.MonkeyPatch, broken: Patch, scenario: Callable[[], Faults]
) -> None:
    assert scenario() == []
    broken(monkeypatch)
    assert scenario() != []
