"""What each mode costs, beside no admission, a semaphore, and slots summed in Python.

Exit status: 0 the figures are complete, whatever they are; 1 a mode let in more than it promises, the witness missed
the uncapped control, or a process failed; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import hardcap
from bench import machine, modes_report
from bench.attach import attach_cost
from bench.baselines import BACKENDS, BASELINES, Hardcap, Subject, hardcap_subjects
from bench.comparison import Comparison
from bench.crew import Crew, WorkerFailed
from bench.figures import Figures
from bench.results import Unusable, json_destination, write_json
from bench.tasks import Bursts, TightLoop, TimedCalls, Window
from bench.witness import Witness

NAME: Final = "modes"
HELP: Final = "what reserve and release cost in each mode, beside what they replace"

LIMIT: Final = 10
SHARED_MEMORY: Final = Path("/dev/shm")  # where segments are by default

Step = Callable[[str], None]


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
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: 25 s instead of 3 minutes")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--processes", type=_counts, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, extra: Sequence[Subject] = ()) -> int:
    """Compare the baselines, every mode that works here, and ``extra``; print it, and write JSON if asked."""
    destination = json_destination(args.json) if args.json else None
    try:
        comparison = _compare(_plan(args), args.scratch, extra)
    except WorkerFailed as failure:
        print(f"bench modes: {failure}", file=sys.stderr)
        return 1
    modes_report.show(comparison)
    if destination:
        write_json(destination, comparison.as_json())
    return 0 if comparison.sound else 1


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(int(count) for count in text.split(","))
    if min(counts) < 1:
        raise ValueError(f"{min(counts)} processes")
    return counts


def _plan(args: argparse.Namespace) -> Plan:
    chosen = {"processes": args.processes, "rounds": args.rounds, "seconds": args.seconds}
    return replace(QUICK if args.quick else FULL, **{key: value for key, value in chosen.items() if value})


def _compare(plan: Plan, scratch: Path | None, extra: Sequence[Subject]) -> Comparison:
    with _segments(scratch) as directory:
        modes = _modes(directory)
        subjects = [*BASELINES, *modes, *extra]
        with _progress(plan.steps(len(subjects))) as step:
            figures = measure(subjects, plan, directory, step)
        backends = ", ".join(dict.fromkeys(mode.backend for mode in modes))
        return Comparison(machine.describe(backends), figures, [attach_cost(mode) for mode in modes])


def _segments(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    parent = scratch or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    try:
        return tempfile.TemporaryDirectory(prefix="hardcap-bench-", dir=parent)
    except OSError as error:
        raise Unusable(f"no directory for segments: {error}") from error


def _modes(directory: str) -> tuple[Hardcap, ...]:
    try:
        modes = hardcap_subjects(directory)
    except hardcap.HardcapError as error:
        raise Unusable(f"hardcap does not work here: {error}") from error
    if not modes:
        raise Unusable(f"hardcap does not work here: none of its backends does ({', '.join(BACKENDS)})")
    return modes


@contextmanager
def _progress(steps: int) -> Iterator[Step]:
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=steps)
        yield lambda text: progress.update(task, advance=1, description=text)


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
            order = _rotated(len(subjects), turn)
            for index in order:
                step(f"{processes} processes, tight loop: {subjects[index].name}")
                figures[index].add_paces(crew.run(index, TightLoop(Window.of(plan.seconds))))
            for index in order:
                step(f"{processes} processes, timed calls: {subjects[index].name}")
                figures[index].add_latencies(crew.run(index, TimedCalls(Window.of(plan.seconds))))
        for index, figure in enumerate(figures):
            step(f"{processes} processes, witness: {subjects[index].name}")
            _witness(crew, index, figure, plan.bursts, Path(directory, f"witness-{processes}-{index}"))
    return figures


def _rotated(count: int, turn: int) -> list[int]:
    """Another one first in each turn."""
    return [(turn + index) % count for index in range(count)]


def _witness(crew: Crew, index: int, figure: Figures, bursts: int, path: Path) -> None:
    attempts = math.ceil(2 * figure.limit / figure.processes)
    tallies = crew.run(index, Bursts(bursts, attempts, str(path)))
    with closing(Witness(path)) as witness:
        figure.add_bursts(tallies, witness.peak)
