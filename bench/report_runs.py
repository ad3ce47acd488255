"""The commands behind the report, one after the other, each as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.results import Unusable

_ROOT: Final = Path(__file__).resolve().parent.parent
_PROCESSES: Final = ("--processes", "1,2")

# By command, what makes it as small as it can be: it shows that the report is built, not what anything costs.
SMALLEST: Final[dict[str, tuple[str, ...]]] = {
    "overload": ("--seconds", "1.2"),
    "recovery": ("--seconds", "1.2"),
    "modes": (*_PROCESSES, "--rounds", "2", "--seconds", "0.01"),
    "peers": (*_PROCESSES, "--laps", "3", "--rounds", "2", "--seconds", "0.01"),
    "overshoot": (*_PROCESSES, "--rounds", "20"),
    "growth": ("--attached", "1,4,11", "--deaths", "1,3", "--rounds", "2"),
}


@dataclass(frozen=True)
class Chapter:
    """One command, its exit status, what it printed and what it wrote as JSON."""

    command: str
    status: int
    printed: str
    results: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(options: Sequence[str], smallest: bool) -> dict[str, Chapter]:
    """Every chapter by its name. ``Unusable`` if a command cannot run here."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="hardcap-report-") as scratch:
        chapters = {}
        for number, (name, small) in enumerate(SMALLEST.items(), 1):
            command = [name, *options, *(small if smallest else ())]
            console.print(f"{number} of {len(SMALLEST)}: python -m bench {' '.join(command)}", highlight=False)
            chapters[name] = _run(command, Path(scratch, f"{name}.json"))
    return chapters


def read(path: Path) -> dict[str, Chapter]:
    """The chapters of a report made before."""
    try:
        return {name: Chapter(**fields) for name, fields in _fields(path)}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise Unusable(f"cannot read {str(path)!r}: {error}") from error


def _fields(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    chapters = json.loads(path.read_text(encoding="utf-8"))
    return ((name, chapters.get(name)) for name in SMALLEST)


def _run(arguments: Sequence[str], file: Path) -> Chapter:
    command = [sys.executable, "-m", "bench", *arguments]
    # A group of its own: an interrupt reaches it once, from here. Its progress goes where ours does.
    with subprocess.Popen(
        [*command, "--json", str(file)], cwd=_ROOT, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            printed, _ = process.communicate()
        except BaseException:
            process.terminate()  # and the block waits until it has cleaned up
            raise
    if not file.exists():
        raise Unusable(f"'python -m bench {arguments[0]}' gave no figures, exit status {process.returncode}")
    results = json.loads(file.read_text(encoding="utf-8"))
    return Chapter(f"python -m bench {' '.join(arguments)}", process.returncode, printed, results)
