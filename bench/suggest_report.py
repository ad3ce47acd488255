"""What ``suggest`` prints: throughput and latency against concurrency, and the proposal in one line."""

from __future__ import annotations

import sys
from typing import Final

from rich.bar import Bar
from rich.table import Table

from bench import machine, tables
from bench.knee import RANGE, Step
from bench.percentiles import percentile
from bench.suggest_runs import Suggestion

BAR: Final = 18  # columns


def show(found: Suggestion) -> None:
    """The table and the machine to stdout; why there is no proposal, to stderr."""
    console = tables.console()
    console.print(_table(found))
    console.print(found.url, markup=False, soft_wrap=True)
    console.print(machine.line(found.machine), soft_wrap=True)
    verdict = found.verdict
    if verdict.limit is None:
        print(f"bench suggest: {verdict.reason}", file=sys.stderr)
        return
    sure = "sure" if verdict.sure else "less sure"
    share = f"{RANGE[1] - RANGE[0]:.0%} of resamplings"
    console.print(f"proposed limit: {verdict.limit} ({sure}; {verdict.low} to {verdict.high} in {share})")
    console.print(f"served at once, by Little's law: {verdict.served_at_once:.1f}")
    for doubt in verdict.doubts:
        console.print(f"but: {doubt}", markup=False, soft_wrap=True)
    console.print(f"to set it: HARDCAP_LIMIT={verdict.limit}")


def _table(found: Suggestion) -> Table:
    made = tables.table("Rising concurrency", "per s", "", "p50", "p99", "", "failed")
    for column in (2, 5):
        made.columns[column].justify = "left"
    most = max(step.throughput for step in found.steps)
    slowest = max(_latency(step, 0.99) for step in found.steps)
    for step in found.steps:
        times = [tables.duration(1e9 * _latency(step, at)) if step.latencies else "-" for at in (0.5, 0.99)]
        bars = _bar(step.throughput, most), _bar(_latency(step, 0.99), slowest)
        style = "bold" if step.in_flight == found.verdict.limit else None
        made.add_row(
            f"{step.in_flight} in flight",
            tables.number(step.throughput),
            bars[0],
            *times,
            bars[1],
            f"{step.failed:.0%}",
            style=style,
        )
    return made


def _latency(step: Step, fraction: float) -> float:
    return percentile(step.latencies, fraction) if step.latencies else 0.0


def _bar(value: float, most: float) -> Bar:
    return Bar(most or 1.0, 0, value, width=BAR)
