"""Both backends, asked the same in the same order, give the same answers and leave the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import hardcap
from hardcap import layout
from tests.support.arguments import Arguments, sensible, wild
from tests.support.native import needs_native
from tests.support.rounds import rounds
from tests.support.twins import Side, Twins

pytestmark = needs_native

STEPS = 300
SLOTS = 12
LIMITS = {"requests": 6, "tokens": 5, "bytes": 4, "files": 3}
Operation = tuple[str, Callable[[Side], object]]


def asks(call: str, which: int, given: Arguments) -> Operation:
    def ask(side: Side) -> object:
        answer = getattr(side.limiters[which], call)(*given.args, **given.kwargs)
        if not isinstance(answer, hardcap.Permit):
            return answer
        side.permits.append(answer)
        return answer.amounts

    return f"limiter {which}: {call}({given})", ask


def adjusts(rng: Random, which: int, resources: tuple[str, ...]) -> Operation:
    given = wild(rng, resources) if rng.random() < 0.2 else sensible(rng, resources, "adjust")

    def adjust(side: Side) -> object:
        permit = side.permits[which]
        return permit.adjust(*given.args, **given.kwargs), permit.amounts

    return f"permit {which}: adjust({given})", adjust


def looks(which: int, at: str) -> Operation:
    return f"limiter {which}: {at}", lambda side: getattr(side.limiters[which], at)


def closes(which: int) -> Operation:
    return f"limiter {which}: close()", lambda side: side.limiters[which].close()


def reopens(limit: int | None, resources: tuple[str, ...]) -> Operation:
    """One more, and the closed ones are forgotten."""

    def reopen(side: Side) -> None:
        side.open(limits=None if limit is None else dict.fromkeys(resources, limit))

    return f"open with limits of {limit}", reopen


def settles_permit(rng: Random, which: int) -> Operation:
    how = rng.choice(("release", "release", "release", "with", "drop", "look"))

    def settle(side: Side) -> object:
        permit = side.permits[which]
        if how == "look":
            return permit.released, permit.amounts, repr(permit)
        if how == "drop":
            del permit, side.permits[which]
            return None
        if how == "with":
            with permit:
                return permit.released
        return permit.release(), permit.released

    return f"permit {which}: {how}", settle


def sets_limit(rng: Random, which: int, resources: tuple[str, ...]) -> Operation:
    if rng.random() < 0.2:
        return asks("set_limit", which, wild(rng, resources))
    chosen = rng.sample(resources, rng.randint(1, len(resources)))
    return asks("set_limit", which, Arguments((), {name: rng.randint(0, 8) for name in chosen}))


def operation(rng: Random, twins: Twins, resources: tuple[str, ...]) -> Operation:
    which = rng.randrange(twins.limiters)
    kind = rng.random()
    if kind < 0.65:
        call = rng.choice(("reserve", "reserve", "release", "admit"))
        return asks(call, which, wild(rng, resources) if rng.random() < 0.15 else sensible(rng, resources, call))
    if kind < 0.80:
        if not twins.permits:
            return looks(which, "held")
        permit = rng.randrange(twins.permits)
        return adjusts(rng, permit, resources) if rng.random() < 0.3 else settles_permit(rng, permit)
    if kind < 0.86:
        return sets_limit(rng, which, resources)
    if kind < 0.90:
        return asks("reap", which, Arguments((), {}))
    if kind < 0.95:
        return looks(which, rng.choice(("held", "in_flight", "available", "limit", "limits", "mode")))
    if kind < 0.97:
        return closes(which)
    return reopens(rng.choice((None, 4, 6)), resources)


def damages(rng: Random, resources: int) -> Operation:
    """A word that calls read, with a value at the edge of what it may be, or far from it."""
    slot = layout.slot(rng.randrange(SLOTS))
    edges = (0, 1, 3, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 2, 2**64 - 1)
    index = rng.randrange(resources)
    words = [slot + layout.S_STATE, slot + layout.S_ADMITTED, slot + layout.S_REFUSED + index, layout.H_HIGH_WATER]
    words += [layout.global_word(index), layout.limit_word(index)] + [slot + layout.S_WORDS + index] * 3
    number, value = rng.choice(words), rng.choice((*edges, rng.getrandbits(64)))
    return f"word {number} = {value:#x}", lambda side: side.damage(number, value)


@pytest.mark.parametrize("resources", [1, 2])
@pytest.mark.parametrize("mode", hardcap.Mode)
def test_random_operations_on_damaged_words(segment_dir: Path, name: str, mode: hardcap.Mode, resources: int) -> None:
    names = tuple(LIMITS)[:resources]
    limits = {resource: LIMITS[resource] for resource in names}
    for rng in rounds(8):
        with rng, Twins(segment_dir, name, mode=mode, limits=limits, max_processes=SLOTS) as twins:
            for step in range(STEPS // 4):
                if step % 4 == 0:
                    twins.agree(*damages(rng, resources))
                twins.agree("a sweep is due", lambda side: side.damage(layout.H_SWEPT_AT, 0))
                twins.agree(*operation(rng, twins, names))


@pytest.mark.parametrize("resources", [1, 2, 4])
@pytest.mark.parametrize("mode", hardcap.Mode)
def test_random_operations(segment_dir: Path, name: str, mode: hardcap.Mode, resources: int) -> None:
    names = tuple(LIMITS)[:resources]
    limits = {resource: LIMITS[resource] for resource in names}
    for rng in rounds(2):
        with rng, Twins(segment_dir, name, mode=mode, limits=limits, max_processes=SLOTS) as twins:
            for _ in range(STEPS):
                twins.agree(*operation(rng, twins, names))
