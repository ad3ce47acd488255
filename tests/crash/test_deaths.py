"""Killed at any instruction: the cap holds, every unit comes back once, and nobody waits.

The short form of ``make crash``: each point at which the words look new, and a seeded sample of the others.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Kill, needs_tracing
from tests.crash.suite import Group
from tests.support.forms import FULL, long_form

pytestmark = needs_tracing

BY_CHANCE = 1 if FULL else 0  # of the other points, in each scenario of one death
ONE = [
    Group("one death", "native", "strict", 2),
    Group("one death", "atomics", "strict", 1),
    Group("one death", "native", "approximate", 1),
]
ONE_LONG = [
    Group("one death", "native", "strict", 1),
    Group("one death", "atomics", "strict", 2),
    Group("one death", "native", "approximate", 2),
    Group("one death", "atomics", "approximate", 1),
]
TWO = [
    Group("two deaths", "native", "strict", 1),
    Group("two deaths", "native", "approximate", 1),
]
TWO_LONG = [
    Group("two deaths", "native", "strict", 2),
    Group("two deaths", "atomics", "strict", 1),
]
NAMES = Group("names", "native", "strict", 2)


def label(group: Group) -> str:
    return f"{group.backend}-{group.mode}-{group.resources}"


def groups(short: list[Group], long: list[Group]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("group", [*short, *(pytest.param(one, marks=long_form) for one in long)], ids=label)


@groups(ONE, ONE_LONG)
def test_one_death(kill: Kill, group: Group) -> None:
    """B01: in the middle of reserve, release, admit, a permit's release and adjust, open, close, reap and set_limit."""
    outcome = kill(group, BY_CHANCE)
    assert outcome.kills > 30
    assert outcome.held > 10
    assert outcome.pending > 10 if group.mode == "strict" else outcome.pending == 0


@groups(TWO, TWO_LONG)
def test_the_recoverer_dies_too(kill: Kill, group: Group) -> None:
    """B01: one dies in the middle of an operation, who recovers from that in the middle of recovering."""
    outcome = kill(group, 1)
    assert outcome.kills > 20
    assert outcome.pending > 10 if group.mode == "strict" else outcome.held > 10


def test_a_name_is_given_or_taken(kill: Kill) -> None:
    """Never two caps under one name, never half a segment, nobody stuck, no debris."""
    assert kill(NAMES, 1).kills > 20
