"""Whatever a call is made with, the native core says what the portable one says, and does what it does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import hardcap
from tests.support.arguments import Arguments, Text, Two, wild
from tests.support.native import needs_native
from tests.support.rounds import rounds
from tests.support.twins import Side, Twins

pytestmark = needs_native

CALLS = ("reserve", "release", "admit")
STEPS = 500
LIMITS = {"requests": 9, "tokens": 9, "bytes": 9, "files": 9}


def answer(side: Side, call: str, given: Arguments) -> object:
    """What the call gives; a permit as its amounts, and released."""
    found = getattr(side.limiters[0], call)(*given.args, **given.kwargs)
    if not isinstance(found, hardcap.Permit):
        return found
    with found:
        return found.amounts


@pytest.mark.parametrize("resources", [1, 2, 4])
@pytest.mark.parametrize("mode", hardcap.Mode)
def test_whatever_is_given(segment_dir: Path, name: str, mode: hardcap.Mode, resources: int) -> None:
    names = tuple(LIMITS)[:resources]
    for rng in rounds(2):
        with rng, Twins(segment_dir, name, mode=mode, limits={key: LIMITS[key] for key in names}) as twins:
            for _ in range(STEPS):
                call, given = rng.choice(CALLS), wild(rng, names)
                twins.agree(f"{call}({given})", partial(answer, call=call, given=given))


TRAPS = {
    "an amount that is the headroom's object": Arguments((), {"tokens": Two.two, "headroom": Two.two}),
    "an amount that is the timeout's object": Arguments((), {"tokens": True, "timeout": True}),
    "a tuple": Arguments((), {"headroom": (1, 2)}),
    "a tuple by position": Arguments(((1,),), {}),
    "the first resource twice, once as 0": Arguments((1,), {"requests": 0}),
    "five names of four resources": Arguments((), {Text("tokens"): 1, **dict.fromkeys(LIMITS, 1)}),
    "eight names of four resources": Arguments((), {Text(key): 1 for key in LIMITS} | dict.fromkeys(LIMITS, 1)),
    "headroom alone": Arguments((), {"headroom": 9}),
    "all zero": Arguments((), dict.fromkeys(LIMITS, 0)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", TRAPS.values(), ids=TRAPS)
def test_a_trap(segment_dir: Path, name: str, call: str, given: Arguments) -> None:
    with Twins(segment_dir, name, limits=LIMITS) as twins:
        twins.agree("reserve all", lambda side: answer(side, "reserve", Arguments((), dict.fromkeys(LIMITS, 3))))
        twins.agree(f"{call}({given})", lambda side: answer(side, call, given))
        twins.agree("snapshot", lambda side: [one.in_flight for one in side.limiters[0].snapshot().resources])
