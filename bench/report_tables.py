"""The figures behind each picture, as rows: the headings first, then names and values as they stand in the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from bench.report_pictures import MODES, Results, latency_rows, peers_rows
from bench.tables import duration

Cell = str | tuple[float | None, Callable[[float], str]]  # a text, or a value and how it is shown
Row = Sequence[Cell]


def overload(results: Results) -> Iterator[Row]:
    """Peak, rates and latencies of each way to keep the limit."""
    yield "", "peak in flight", "admitted", "refused", "admitted p50", "admitted p99", "refused p99"
    for name in MODES:
        figures = results["modes"][name]
        times = [figures[key] for key in ("admitted_p50_ms", "admitted_p99_ms", "refused_p99_ms")]
        counts = [figures[key] for key in ("peak_in_flight", "admitted", "refused")]
        yield name, *((count, str) for count in counts), *((time, _milliseconds) for time in times)


def recovery(results: Results) -> Iterator[Row]:
    """What was lost, and when it was back."""
    yield "", "in flight before", "held by the killed", "most afterwards", "full again after"
    for name, figures in results["runs"].items():
        counts = [figures[key] for key in ("in_flight_before", "held_by_killed", "peak_after_kill")]
        yield name, *((count, str) for count in counts), (figures["back_after_seconds"], _seconds)


def latency(results: Results) -> Iterator[Row]:
    """Percentiles."""
    rows = latency_rows(results)
    names = list(rows[0]["reserve_ns"])
    yield "reserve", *names, "samples"
    for row in rows:
        yield row["name"], *((row["reserve_ns"][name], duration) for name in names), (row["samples"], str)


def peers(results: Results) -> Iterator[Row]:
    """A pair of each, and its fate."""
    survived = {row["name"]: row["survived"] for row in results["survival"]}
    yield "", "pair", "shortest", "units of a killed holder"
    for row in reversed(peers_rows(results)):
        fate = {True: "come back", False: "lost", None: "-"}[survived.get(row["name"])]
        yield row["name"], (row["pair_ns"], duration), (row["least_pair_ns"], duration), fate


def contention(results: Results) -> Iterator[Row]:
    """Cost and throughput by number of processes."""
    yield "", "processes", "pair", "pairs per second"
    for row in results["subjects"]:
        yield row["name"], (row["processes"], str), (row["pair_ns"], duration), (row["pairs_per_second"], _rate)


def overshoot(results: Results) -> Iterator[Row]:
    """The most seen, and the most allowed."""
    yield "", "processes", "most in flight", "formula"
    for row in results["subjects"]:
        yield row["name"], (row["processes"], str), (row["peak_holders"], str), (row["bound"], str)


def growth(results: Results) -> Iterator[Row]:
    """Pairs and attaches by number of limiters."""
    yield "", "attached", "pair", "attach, processor time"
    for row in results["attached"]:
        cells = (row["attached"], str), (row["pair_ns"], duration), (row["attach_cpu_ms"], _milliseconds)
        yield row["name"], *cells


def _milliseconds(value: float) -> str:
    return duration(value * 1e6)


def _seconds(value: float) -> str:
    return duration(value * 1e9)


def _rate(value: float) -> str:
    return f"{value:,.0f}"


TABLES: Final[Mapping[str, Callable[[Results], Iterator[Row]]]] = {
    table.__name__: table for table in (overload, recovery, latency, peers, contention, overshoot, growth)
}
