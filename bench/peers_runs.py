"""The runs behind ``python -m bench peers``: one process, more and more of them, and killed ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench import alone, machine, processes, redis_counter, stage, survival
from bench.baselines import ORIGINAL, Context, Hardcap, Subject
from bench.crew import Crew
from bench.figures import Figures
from bench.laps import Contend
from bench.peer_subjects import (
    LIMIT,
    EmptyMethod,
    LockFiles,
    NamedSemaphore,
    PosixSemaphore,
    UndoneSemaphore,
    ValueCounter,
    ValueInside,
    WaitingSemaphore,
)
from bench.peers import PACKAGES, Plan
from bench.peers_outcome import Peers
from bench.rounds import Step, rotated
from bench.survival import Doing, Survival, Trial
from bench.tasks import Window

IMPORTED: Final = ("bench.laps", "bench.peer_subjects", "bench.redis_counter", "bench.survival")


def compare(plan: Plan, scratch: Path | None) -> Peers:
    """Everything, in this order. Raises ``WorkerFailed``."""
    context = processes.context(IMPORTED)
    with ExitStack() as leave:
        directory = leave.enter_context(stage.segments(scratch))
        modes = stage.fastest_first(stage.modes(directory))
        compared: list[Subject] = [WaitingSemaphore(), modes[0]]
        redis = leave.enter_context(redis_counter.served())
        others = [*modes[1:], *_others(directory, leave), *([redis] if redis else [])]
        subjects = [EmptyMethod(), *compared, *others]
        step = leave.enter_context(stage.progress(plan.steps(len(subjects), len(compared))))
        forms = alone.measure(context, subjects, modes, plan.laps, step)
        figures = [forms[subject.name] for subject in subjects]
        for count in plan.processes:
            if count > 1:
                figures += _crowd(context, subjects, compared, count, plan, step)
        survivals = _survivals(context, [*compared, *others], modes, directory, step)
        missing = {} if redis else {redis_counter.NAME: "not installed"}
        backends = stage.backends(modes)
        versions = {package: version(package) for package in PACKAGES}
        return Peers(machine.describe(backends), modes, forms, figures, survivals, missing, versions)


def _others(directory: str, leave: ExitStack) -> list[Subject]:
    return [
        ValueCounter(),
        PosixSemaphore(leave),
        UndoneSemaphore(leave),
        NamedSemaphore(directory),
        LockFiles(directory),
        ORIGINAL,
    ]


def _crowd(
    context: Context, subjects: Sequence[Subject], compared: Sequence[Subject], count: int, plan: Plan, step: Step
) -> list[Figures]:
    limit = max(LIMIT, count)
    figures = [Figures(subject, count, limit) for subject in subjects]
    closely = [index for index, subject in enumerate(subjects) if subject in compared]
    with Crew(context, [subject.share(context, limit, count) for subject in subjects], count) as crew:
        crew.attached()
        for turn in range(plan.rounds):
            taking_turns = range(len(subjects)) if plan.everybody(turn) else closely
            for place in rotated(len(taking_turns), turn):
                index = taking_turns[place]
                step(f"{count} processes: {subjects[index].name}")
                figures[index].add_paces(crew.run(index, Contend(Window.of(plan.seconds))))
    return figures


def _survivals(
    context: Context, subjects: Sequence[Subject], modes: Sequence[Hardcap], directory: str, step: Step
) -> list[Survival]:
    apart = Path(directory, "at-work")  # other segments than those of the holders
    apart.mkdir(mode=0o700)
    trials = [Trial(subject, Doing.HOLDING) for subject in subjects]
    trials.append(Trial(ValueInside(), Doing.INSIDE))
    trials += [Trial(replace(mode, directory=str(apart)), Doing.WORKING) for mode in modes]
    return survival.measure(context, trials, step)
