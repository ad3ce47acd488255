"""Admissions on words in memory, and what a caller may do to one: each call tells how it changed what is held."""

from __future__ import annotations

from collections.abc import Callable

from hardcap.admission import ADMITTED, Admission
from hardcap.amounts import Wanted
from hardcap.approximate import Approximate
from hardcap.errors import ReleaseError
from hardcap.ownership import claim
from hardcap.strict import Strict
from tests.support.memory import Memory

MODES: dict[str, type[Admission]] = {"strict": Strict, "approximate": Approximate}
LIMITS = {"requests": 3, "tokens": 9}
HELD: Wanted = ((0, 2), (1, 5))

Change = dict[int, int]
Call = Callable[[Admission], Change]


def admitted(made: Memory) -> Admission:
    """One that holds ``HELD``."""
    process = made.process()
    admission = MODES[made.shape.mode](process, claim(process))
    assert admission.reserve(HELD, 0) == ADMITTED
    return admission


def reserve(admission: Admission) -> Change:
    return {0: 1, 1: 1} if admission.reserve(((0, 1), (1, 1)), 0) == ADMITTED else {}


def release(admission: Admission, wanted: Wanted = ((0, 1), (1, 1))) -> Change:
    try:
        admission.release(wanted)
    except ReleaseError:
        return {}
    return {index: -units for index, units in wanted}


def release_all(admission: Admission) -> Change:
    return release(admission, HELD)


def release_one_of_them(admission: Admission) -> Change:
    return release(admission, ((1, 5),))


def look(admission: Admission) -> Change:
    """Nobody ever sees what cannot be."""
    assert admission.held(0) in range(4)
    assert admission.held(1) in range(10)
    return {}


def refuse(admission: Admission) -> Change:
    admission.refuse(0)
    return {}


def permit(admission: Admission) -> Change:
    admission.permit_out(1, 100)
    admission.permit_back(1)
    return {}


CALLS: list[Call] = [reserve, release, release_all, release_one_of_them, look, refuse, permit]
