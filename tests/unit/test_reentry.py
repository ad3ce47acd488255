"""A signal handler or a finalizer enters a limiter in the middle of another call, wherever that one is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import pytest

from hardcap import layout
from hardcap.admission import Admission
from hardcap.errors import SegmentClosed
from tests.support.admissions import (
    CALLS,
    HELD,
    LIMITS,
    MODES,
    Call,
    Change,
    admitted,
    look,
    refuse,
    release,
    release_all,
    reserve,
)
from tests.support.forms import FULL
from tests.support.interrupts import before_instruction
from tests.support.memory import Memory, memory
from tests.support.rounds import SEED

each_mode = pytest.mark.parametrize("mode", MODES)
STRIDE = 1 if FULL else 3  # in the short form every third instruction, another third with each seed


def instructions() -> Iterator[int]:
    """The numbers of instructions to interrupt, without end."""
    return itertools.count(SEED % STRIDE, STRIDE)


def assert_true(made: Memory, admission: Admission, changes: list[Change]) -> None:
    """What is held is what the callers were told, and all that counts it agrees."""
    for index, held in HELD:
        now = held + sum(change.get(index, 0) for change in changes)
        assert now >= 0
        assert (admission.held(index), made.held(0, index), made.pending(0, index)) == (now, now, 0)
        assert made.count(index) == (now if made.shape.mode == "strict" else 0)


@each_mode
@pytest.mark.parametrize("inner", CALLS)
@pytest.mark.parametrize("outer", CALLS)
def test_a_call_in_the_middle_of_a_call(mode: str, outer: Call, inner: Call) -> None:
    """At every access to memory: no deadlock, no unit lost or given back twice, each caller told the truth."""
    for number in itertools.count():
        with memory(mode, LIMITS) as made:
            admission = admitted(made)
            changes: list[Change] = []
            made.words.before_access(number, lambda: changes.append(inner(admission)))  # noqa: B023
            changes.append(outer(admission))
            if made.words.undisturbed():
                break
            assert_true(made, admission, changes)


@each_mode
@pytest.mark.parametrize("inner", [reserve, release_all, look])
@pytest.mark.parametrize("outer", [reserve, release, release_all])
def test_a_call_at_any_instruction_of_a_call(mode: str, outer: Call, inner: Call) -> None:
    """The collector runs finalizers wherever something is allocated."""
    for number in instructions():
        with memory(mode, LIMITS) as made:
            admission = admitted(made)
            changes: list[Change] = []
            with before_instruction(number, lambda: changes.append(inner(admission))) as done:  # noqa: B023
                changes.append(outer(admission))
            assert_true(made, admission, changes)
            if not done:
                break
    assert number > 50


@each_mode
@pytest.mark.parametrize("looking", [True, False])
def test_what_a_handler_has_queued_is_applied_under_the_eyes_of_another(mode: str, looking: bool) -> None:
    """Three deep: a release inside a reservation, and somebody at any instruction of the way out."""
    for number in instructions():
        with memory(mode, LIMITS) as made:
            admission = admitted(made)
            changes: list[Change] = []
            made.words.before("load", layout.limit_word(1), lambda: changes.append(release_all(admission)))  # noqa: B023
            last = partial(look if looking else refuse, admission)
            with before_instruction(number, lambda: changes.append(last())) as done:  # noqa: B023
                changes.append(reserve(admission))
            assert_true(made, admission, changes)
            if not done:
                break
    assert number > 50


@each_mode
@pytest.mark.parametrize("call", [reserve, release, release_all, look])
def test_closed_in_the_middle_of_a_call(mode: str, call: Call) -> None:
    """At every access: the call comes to its end, then all is given back, once; the next call is told."""
    for number in itertools.count():
        with memory(mode, LIMITS) as made:
            admission = admitted(made)
            ends: list[int] = []

            def clear_up(admission: Admission = admission, ends: list[int] = ends) -> None:
                admission.give_back_all()
                ends.append(admission.held(0) + admission.held(1))

            made.words.before_access(number, partial(admission.close, clear_up))
            call(admission)
            if made.words.undisturbed():
                break
            assert ends == [0]
            assert made.count() == 0
            with pytest.raises(SegmentClosed):
                admission.reserve(((0, 1),), 0)


@each_mode
def test_permits_noted_in_the_middle_of_one_another(mode: str) -> None:
    """Whatever a handler adds or takes away, what is shown in the end is the oldest."""
    for number in instructions():
        with memory(mode, LIMITS) as made:
            admission = admitted(made)
            admission.permit_out(1, 100)

            def handler(admission: Admission = admission) -> None:
                admission.permit_back(1)
                admission.permit_out(3, 300)

            with before_instruction(number, handler) as done:
                admission.permit_out(2, 200)
            if not done:
                break
            shown = layout.slot(0) + layout.S_OLDEST_PERMIT
            assert made.words.load(shown) in (200, 300)
            admission.permit_back(3)
            assert made.words.load(shown) == 200
            admission.permit_back(2)
            assert made.words.load(shown) == 0
    assert number > 20
