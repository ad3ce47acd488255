"""One process: every subject's pair, and hardcap's in the other forms that the goals speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import Final

from bench.baselines import ORIGINAL, Context, Hardcap, Subject
from bench.figures import Figures
from bench.laps import Lap, alternate, pair
from bench.peer_subjects import LIMIT
from bench.rounds import Step

ATTACHED: Final = 4

BY_ATTRIBUTE: Final = "limiter.reserve(); limiter.release()"
SEMAPHORE_BY_ATTRIBUTE: Final = "semaphore.acquire(); semaphore.release()"
ADMIT: Final = "with limiter.admit(): pass"
ADMIT_RELEASE: Final = "limiter.admit().release()"
LOCK: Final = "with lock: pass"
APPROXIMATE_OF_4: Final = "approximate, 4 attached"
SLOTS_OF_4: Final = "slots, 4 processes"


def measure(
    context: Context, subjects: Sequence[Subject], modes: Sequence[Hardcap], rounds: int, step: Step
) -> dict[str, Figures]:
    """The figures of every subject by its name, and of every form by the constants above, of the first two modes."""
    with ExitStack() as leave:
        forms = _forms(context, modes, leave)
        laps = forms | {subject.name: _attached(context, subject, 1, leave) for subject in subjects}
        by_name: Mapping[str, Subject] = {subject.name: subject for subject in subjects}
        figures = {name: Figures(by_name.get(name, modes[0]), 1, LIMIT) for name in laps}
        alternate(list(laps.values()), list(figures.values()), rounds, step)
    return figures


def _forms(context: Context, modes: Sequence[Hardcap], leave: ExitStack) -> dict[str, Lap]:
    strict, approximate = modes[:2]
    limiter = leave.enter_context(strict.open("bench-forms", LIMIT))
    return {
        BY_ATTRIBUTE: Lap(BY_ATTRIBUTE, limiter=limiter),
        SEMAPHORE_BY_ATTRIBUTE: Lap(SEMAPHORE_BY_ATTRIBUTE, semaphore=context.BoundedSemaphore(LIMIT)),
        ADMIT: Lap(ADMIT, limiter=limiter),
        ADMIT_RELEASE: Lap(ADMIT_RELEASE, limiter=limiter),
        LOCK: Lap(LOCK, lock=Lock()),
        APPROXIMATE_OF_4: _attached(context, approximate, ATTACHED, leave),
        SLOTS_OF_4: _attached(context, ORIGINAL, ATTACHED, leave),
    }


def _attached(context: Context, subject: Subject, processes: int, leave: ExitStack) -> Lap:
    """The pair of the first of so many that are attached; the others idle."""
    share = subject.share(context, LIMIT, processes)
    gates = [share(index) for index in range(processes)]
    for gate in gates:
        leave.callback(gate.close)
    return pair(gates[0])
