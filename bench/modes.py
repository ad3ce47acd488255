"""What each mode costs, beside no admission, a semaphore, and slots summed in Python.

Exit status: 0 the figures are complete, whatever they are; 1 a mode let in more than it promises, the witness missed
the uncapped control, or a process failed; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import machine, modes_report, stage
from bench.attach import attach_cost
from bench.baselines import BASELINES, Subject
from bench.bursts import burst
from bench.comparison import Comparison
from bench.crew import Crew
from bench.figures import Figures
from bench.rounds import Step, rotated
from bench.tasks import Bursts, TightLoop, TimedCalls, Window

NAME: Final = "modes"
HELP: Final = "what reserve and release cost in each mode, beside what they replace"

LIMIT: Final = 10


@dataclass(frozen=True)
class Plan:
    """Each round runs every subject twice, for ``seconds`` each time."""

    processes: tuple[int, ...]
    rounds: int
    seconds: float
    bursts: int

    def steps(self, subjects: int) -> int:
        """How many steps ``measure`` reports."""
        return len(self.processes) * (2 * self.rounds + 1) * subjects


QUICK: Final = Plan(processes=(1, 2, 4, 8), rounds=4, seconds=0.04, bursts=10)
FULL: Final = Plan(processes=(1, 2, 4, 8), rounds=20, seconds=0.12, bursts=50)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench modes``."""
    stage.configure(parser, "fewer and shorter rounds: 25 s instead of 3 minutes")
    parser.add_argument("--processes", type=stage.counts, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, extra: Sequence[Subject] = ()) -> int:
    """Compare the baselines, every mode that works here, and ``extra``; print it, and write JSON if asked."""
    plan = stage.adapted(QUICK if args.quick else FULL, args, "processes", "rounds", "seconds")
    return stage.conclude(NAME, args, lambda: _compare(plan, args.scratch, extra), modes_report.show)


def _compare(plan: Plan, scratch: Path | None, extra: Sequence[Subject]) -> Comparison:
    with stage.segments(scratch) as directory:
        modes = stage.modes(directory)
        subjects = [*BASELINES, *modes, *extra]
        with stage.progress(plan.steps(len(subjects))) as step:
            figures = measure(subjects, plan, directory, step)
        backends = stage.backends(modes)
        return Comparison(machine.describe(backends), figures, [attach_cost(mode) for mode in modes])


def measure(subjects: Sequence[Subject], plan: Plan, directory: str, step: Step) -> list[Figures]:
    """Every subject with every number of processes. Raises ``WorkerFailed``."""
    return [
        figure for processes in plan.processes for figure in _measure_crew(subjects, processes, plan, directory, step)
    ]


def _measure_crew(subjects: Sequence[Subject], processes: int, plan: Plan, directory: str, step: Step) -> list[Figures]:
    context = multiprocessing.get_context("spawn")
    limit = max(LIMIT, processes)  # room for one unit each: what is timed is an admission
    figures = [Figures(subject, processes, limit) for subject in subjects]
    with Crew(context, [subject.share(context, limit, processes) for subject in subjects], processes) as crew:
        crew.attached()
        for turn in range(plan.rounds):
            order = rotated(len(subjects), turn)
            for index in order:
                step(f"{processes} processes, tight loop: {subjects[index].name}")
                figures[index].add_paces(crew.run(index, TightLoop(Window.of(plan.seconds))))
            for index in order:
                step(f"{processes} processes, timed calls: {subjects[index].name}")
                figures[index].add_latencies(crew.run(index, TimedCalls(Window.of(plan.seconds))))
        for index, figure in enumerate(figures):
            step(f"{processes} processes, witness: {subjects[index].name}")
            attempts = math.ceil(2 * limit / processes)
            burst(crew, index, figure, Bursts(plan.bursts, attempts, f"{directory}/witness-{processes}-{index}"))
    return figures
