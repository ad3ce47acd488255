"""The comparison as tables that fit in 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from statistics import median

from rich.table import Table

from bench import machine, tables
from bench.baselines import ORIGINAL
from bench.comparison import Comparison
from bench.figures import Figures, percentiles
from bench.percentiles import REPORTED
from bench.tables import duration, goal_line


def show(comparison: Comparison) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    console.print(_pairs(comparison))
    console.print(_latencies(comparison))
    for line in _lines(comparison):
        console.print(line)


def _pairs(comparison: Comparison) -> Table:
    table = _table("Pairs in a tight loop, and bursts at the limit before the witness")
    for heading in ("pair", "ratio", "pairs/s", "refused", "admitted\nin bursts", "most\nheld", "promised"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure, is_last in _rows(comparison):
        table.add_row(*_names(figure), *_pair_cells(comparison, figure), end_section=is_last)
    return table


def _pair_cells(comparison: Comparison, figure: Figures) -> tuple[str, ...]:
    peak = f"{figure.peak} of {figure.limit}"
    return (
        duration(median(figure.pair_ns)),
        f"{comparison.ratio(figure):.2f}",
        f"{median(figure.pairs_per_second):,.0f}",
        str(figure.refused),
        f"{figure.bursts.admitted} of {sum(figure.bursts)}",
        peak if figure.kept else f"[bold red]{peak}[/]",
        "-" if figure.bound is None else str(figure.bound),
    )


def _latencies(comparison: Comparison) -> Table:
    table = _table("Each call timed alone, every process's calls together")
    for call in ("reserve", "release"):
        for name in REPORTED:
            table.add_column(f"{call}\n{name}", justify="right")
    for figure, is_last in _rows(comparison):
        cells = [percentiles(counts) for counts in (figure.reserve, figure.release)]
        durations = [duration(cell[name]) if cell else "-" for cell in cells for name in REPORTED]
        table.add_row(*_names(figure), *durations, end_section=is_last)
    return table


def _table(title: str) -> Table:
    table = tables.bare_table(title)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("subject", no_wrap=True)
    return table


def _rows(comparison: Comparison) -> Iterator[tuple[Figures, bool]]:
    """Figures by number of processes; whether one is the last of its number."""
    for _, group in groupby(comparison.figures, key=lambda figure: figure.processes):
        *first, last = group
        yield from ((figure, False) for figure in first)
        yield last, True


def _names(figure: Figures) -> tuple[str, str]:
    return str(figure.processes), figure.subject.name


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "pair: processor time of a reserve and its release, median of rounds; pairs/s: all processes"
    yield f"ratio: a pair to that of {ORIGINAL.name} in the same round, median"
    timer = comparison.timer_ns()
    yield f"timing adds {duration(timer['p50'])} to each duration (p99 {duration(timer['p99'])}), not subtracted"
    yield f"an attach takes {comparison.attach_cpu_ms:.3g} ms of processor time"
    yield from map(goal_line, comparison.goals())
    yield from _verdicts(comparison)
    yield machine.line(comparison.machine)


def _verdicts(comparison: Comparison) -> Iterator[str]:
    for figure in comparison.broken:
        yield (
            f"[bold red]broken[/]: {figure.subject.name}, {figure.processes} processes: "
            f"{figure.peak} holders seen, {figure.bound} promised"
        )
    for figure in comparison.blind:
        yield f"[bold red]blind[/]: the witness saw {figure.peak} of {figure.limit} holders without admission"
    if comparison.sound:
        most = max(figure.peak for figure in comparison.controls)
        yield f"[green]kept[/]: every promise; without admission the same witness saw {most} holders"
