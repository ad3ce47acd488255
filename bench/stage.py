"""What every comparison needs around it: options, a directory for segments, progress, an exit status."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import hardcap
from bench.baselines import BACKENDS, Hardcap, hardcap_subjects
from bench.crew import WorkerFailed
from bench.results import Unusable, json_destination, write_json
from bench.rounds import Step

SHARED_MEMORY: Final = Path("/dev/shm")  # where segments are by default


class Outcome(Protocol):
    """Everything that one command found."""

    @property
    def sound(self) -> bool:
        """Whether all promises were kept, and a broken one would have been seen."""

    def as_json(self) -> Mapping[str, object]: ...


Found = TypeVar("Found", bound=Outcome)
Plan = TypeVar("Plan", bound=Any)


def configure(parser: argparse.ArgumentParser, quick: str) -> None:
    """The options of every comparison; ``quick`` says what its short form is."""
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too")
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)


def adapted(plan: Plan, args: argparse.Namespace, *names: str) -> Plan:
    """The plan with those of the named options that were given."""
    return replace(plan, **{name: value for name in names if (value := getattr(args, name))})


def conclude(name: str, args: argparse.Namespace, measure: Callable[[], Found], show: Callable[[Found], None]) -> int:
    """Measure, print, write JSON if asked. The exit status: 1 if it is not sound, or a process failed."""
    destination = json_destination(args.json) if args.json else None
    try:
        found = measure()
    except WorkerFailed as failure:
        print(f"bench {name}: {failure}", file=sys.stderr)
        return 1
    show(found)
    if destination:
        write_json(destination, found.as_json())
    return 0 if found.sound else 1


def segments(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    """A directory for segments, gone in the end."""
    parent = scratch or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    try:
        return tempfile.TemporaryDirectory(prefix="hardcap-bench-", dir=parent)
    except OSError as error:
        raise Unusable(f"no directory for segments: {error}") from error


def modes(directory: str) -> tuple[Hardcap, ...]:
    """Both modes on every backend that works here; ``Unusable`` where none does."""
    try:
        found = hardcap_subjects(directory)
    except hardcap.HardcapError as error:
        raise Unusable(f"hardcap does not work here: {error}") from error
    if not found:
        raise Unusable(f"hardcap does not work here: none of its backends does ({', '.join(BACKENDS)})")
    return found


def fastest_first(found: Sequence[Hardcap]) -> list[Hardcap]:
    """By backend, the native one before the portable; the modes of each in their order."""
    return sorted(found, key=lambda mode: BACKENDS.index(mode.backend), reverse=True)


def backends(found: Sequence[Hardcap]) -> str:
    """Each of their backends once, for the machine's line."""
    return ", ".join(dict.fromkeys(mode.backend for mode in found))


@contextmanager
def progress(steps: int) -> Iterator[Step]:
    """A bar on stderr, where that is a terminal: call what it gives once a step."""
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=steps)
        yield lambda text: shown.update(task, advance=1, description=text)


def counts(text: str) -> tuple[int, ...]:
    """An option's value such as ``1,2,4``."""
    found = tuple(int(count) for count in text.split(","))
    if min(found) < 1:
        raise ValueError(f"{min(found)} is no count")
    return found
