"""What `make torture` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from bench import machine, tables
from bench.percentiles import percentile
from tests.torture.deaths import Times
from tests.torture.plan import BACKENDS, WORKERS
from tests.torture.storm import Outcome

GOAL_MS: Final = 50.0


def show(outcomes: Mapping[str, Outcome], console: Console) -> None:
    """The tables, what is wrong, and the machine.

    ``longest gap`` is between one admission and the next, whoever's; ``beyond`` counts admissions beyond the cap;
    ``faults`` are units missing or invented, wrong ends, and whatever did not come back.
    """
    console.print(_storms(outcomes))
    console.print(_recoveries(outcomes))
    for title, outcome in outcomes.items():
        for fault in outcome.faults:
            console.print(f"[bold red]{title}: {fault}[/]")
    backends = " and ".join(BACKENDS)
    console.print(machine.line(machine.describe(backends)), soft_wrap=True)


def unsound(outcomes: Iterable[Outcome]) -> bool:
    """Whether anything was lost, invented, or held beyond the cap."""
    return any(outcome.violations or outcome.faults for outcome in outcomes)


def _storms(outcomes: Mapping[str, Outcome]) -> Table:
    figures = ("kills", "per s", "stops", "admitted/s", "longest gap", "peak", "beyond", "faults")
    made = tables.table(f"Storms: {WORKERS} workers", *figures)
    for title, one in outcomes.items():
        rates = f"{one.kills / one.seconds:.0f}", f"{one.stops}", f"{one.admitted / one.seconds:.0f}"
        counts = f"{one.peak}", f"{one.violations}", f"{len(one.faults)}"
        made.add_row(title, f"{one.kills}", *rates, f"{one.pause_ms:.0f} ms", *counts)
    return made


def _recoveries(outcomes: Mapping[str, Outcome]) -> Table:
    made = tables.table(
        "From the SIGKILL until the units are back, in ms", "deaths", "p50", "p90", "p99", "max", "p99 < 50"
    )
    for title, outcome in outcomes.items():
        for what, times in _kinds(outcome.times):
            if times:
                goal = tables.verdict(_p99(times) < GOAL_MS) if what == "all" else ""
                made.add_row(f"{title}: {what}", *_distribution(times), goal)
    return made


def _kinds(times: Times) -> list[tuple[str, list[float]]]:
    """Those held up stand apart: their operation waits for whoever is stopped in the middle of another."""
    return [("all", times.whole + times.cut), ("cut in half", times.cut), ("held up by a stopped one", times.held_up)]


def _p99(times: Sequence[float]) -> float:
    return percentile(sorted(times), 0.99)


def _distribution(times: Sequence[float]) -> list[str]:
    ordered = sorted(times)
    figures = [*(percentile(ordered, fraction) for fraction in (0.5, 0.9, 0.99)), ordered[-1]]
    return [f"{len(ordered)}", *(f"{figure:.1f}" for figure in figures)]
