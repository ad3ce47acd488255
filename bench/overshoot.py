"""Bursts at the limit: the most that is in flight at once, beside the formula limit + (W - 1) * a.

W processes ask at the same instant, one unit at a time (a = 1), for more than the formula allows, and keep what they
got until all have asked; the independent witness counts. Exit status: 0 every mode kept to its formula; 1 one did not,
the witness missed the uncapped control, or a process failed; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import machine, stage, tables
from bench.baselines import CONTROL, Subject
from bench.bursts import burst
from bench.crew import Crew
from bench.figures import Figures
from bench.machine import Machine
from bench.rounds import Step
from bench.tasks import Bursts

NAME: Final = "overshoot"
HELP: Final = "the most in flight at once when processes burst at the limit, beside the formula"
LIMIT: Final = 10


@dataclass(frozen=True)
class Plan:
    """``rounds`` bursts of every subject with every number of processes."""

    processes: tuple[int, ...]
    rounds: int


QUICK: Final = Plan(processes=(1, 2, 4, 8, 16), rounds=100)
FULL: Final = Plan(processes=(1, 2, 4, 8, 16, 32), rounds=1000)


@dataclass(frozen=True)
class Overshoot:
    """The figures of every subject by number of processes; of them only the bursts are measured."""

    machine: Machine
    figures: Sequence[Figures]

    @property
    def sound(self) -> bool:
        """Whether every mode kept to its formula, before a witness that catches who has none."""
        blind = any(figure.subject == CONTROL and figure.peak <= LIMIT for figure in self.figures)
        return not blind and all(figure.kept for figure in self.figures)

    def as_json(self) -> Mapping[str, object]:
        """Units, all of them."""
        return {"machine": self.machine, "subjects": [_row(figure) for figure in self.figures], "sound": self.sound}


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench overshoot``."""
    stage.configure(parser, "fewer bursts, of fewer processes: 10 s instead of 1 minute")
    parser.add_argument("--processes", type=stage.counts, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure; print it, and write JSON if asked."""
    plan = stage.adapted(QUICK if args.quick else FULL, args, "processes", "rounds")
    return stage.conclude(NAME, args, lambda: measure(plan, args.scratch), show)


def measure(plan: Plan, scratch: Path | None) -> Overshoot:
    """Every mode on every backend, and the control. Raises ``WorkerFailed``."""
    with stage.segments(scratch) as directory:
        modes = stage.fastest_first(stage.modes(directory))
        subjects: list[Subject] = [CONTROL, *modes]
        with stage.progress(len(plan.processes) * len(subjects)) as step:
            figures = [figure for count in plan.processes for figure in _burst(subjects, count, plan, directory, step)]
        return Overshoot(machine.describe(stage.backends(modes)), figures)


def _burst(subjects: Sequence[Subject], processes: int, plan: Plan, directory: str, step: Step) -> list[Figures]:
    context = multiprocessing.get_context("spawn")
    figures = [Figures(subject, processes, LIMIT) for subject in subjects]
    attempts = math.ceil((LIMIT + 2 * processes) / processes)
    with Crew(context, [subject.share(context, LIMIT, processes) for subject in subjects], processes) as crew:
        crew.attached()
        for index, figure in enumerate(figures):
            step(f"{processes} processes: {figure.subject.name}")
            burst(crew, index, figure, Bursts(plan.rounds, attempts, f"{directory}/witness-{processes}-{index}"))
    return figures


def show(found: Overshoot) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    made = tables.table(f"Bursts at a limit of {LIMIT}", "processes", "most in flight", "formula", "")
    for figure in found.figures:
        formula = "-" if figure.bound is None else str(figure.bound)
        kept = "" if figure.bound is None else tables.verdict(figure.kept)
        made.add_row(figure.subject.name, str(figure.processes), str(figure.peak), formula, kept)
    console.print(made)
    console.print(machine.line(found.machine))


def _row(figure: Figures) -> dict[str, object]:
    return {
        "name": figure.subject.name,
        "processes": figure.processes,
        "limit": LIMIT,
        "peak_holders": figure.peak,
        "bound": figure.bound,
        "bursts": figure.bursts._asdict(),
        "kept": figure.kept,
    }
