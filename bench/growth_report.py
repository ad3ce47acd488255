"""How cost grows, as tables that fit in 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rich.table import Table

from bench import machine, tables
from bench.growth_outcome import Growth


def show(growth: Growth) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    for table in (_pairs(growth), _attaches(growth), _reaps(growth), tables.goals(growth.ratios())):
        console.print(table)
    for line in _lines(growth):
        console.print(line)


def _pairs(growth: Growth) -> Table:
    made = tables.table("A pair, by number of attached limiters, all but one idle", *map(str, growth.counts))
    for mode in growth.modes:
        cells = [growth.cell(mode.name, count).pairs.pair_ns for count in growth.counts]
        made.add_row(mode.name, *(tables.duration(median(cell)) for cell in cells))
    return made


def _attaches(growth: Growth) -> Table:
    made = tables.table("An attach in ms, by number of attached limiters", *map(str, growth.counts))
    for mode in growth.modes:
        costs = [growth.cell(mode.name, count).attach for count in growth.counts]
        made.add_row(mode.name, *(_both(cost.cpu_ms, cost.wall_ms) for cost in costs))
    return made


def _reaps(growth: Growth) -> Table:
    made = tables.table("A reap in ms, by number of dead processes that held a unit", *map(str, growth.deaths))
    for mode in growth.modes:
        reapings = [growth.reaping(mode.name, deaths) for deaths in growth.deaths]
        made.add_row(mode.name, *(_both(reaping.cpu_ms, reaping.wall_ms) for reaping in reapings))
    return made


def _both(cpu_ms: float, wall_ms: float) -> str:
    return f"{cpu_ms:.2f} / {wall_ms:.2f}"


def _lines(growth: Growth) -> Iterator[str]:
    yield tables.GOALS_NOTE
    yield "pair: processor time, median of rounds; attach, reap: processor time / wait, medians"
    sizes = ", ".join(f"{size / 1024:.0f} KiB with {slots}" for slots, size in growth.segments.items())
    yield f"a segment by its slots (max_processes): {sizes}"
    for reaping in growth.broken:
        recovered = ", ".join(f"{reaped.recovered} with {reaped.left} units left" for reaped in reaping.reaps)
        yield f"[bold red]broken[/]: {reaping.subject.name}, {reaping.deaths} dead, recovered: {recovered}"
    yield machine.line(growth.machine)
