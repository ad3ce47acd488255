"""The pictures of the report: what each of them draws, from what one command wrote as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bench import report_style as style
from bench.tables import duration

Results = Mapping[str, Any]
MODES: Final = ("per-process", "approximate", "strict")
CONTENDING: Final = ("strict/native", "approximate/native", "BoundedSemaphore", "posix_ipc", "RawArray slots")


@dataclass(frozen=True)
class Picture:
    """``chapter`` is the command whose figures it shows; ``draw`` gets as many axes as there are ``columns``."""

    name: str
    title: str
    chapter: str
    draw: Callable[[Sequence[Axes], Results], None]
    columns: int = 1

    def save(self, directory: Path, results: Results, command: str) -> None:
        """Write it as SVG and as PNG."""
        source = style.source(results["machine"], command)
        with style.picture(self.title, source, directory / self.name, self.columns) as axes:
            self.draw(axes, results)


def overload(axes: Sequence[Axes], results: Results) -> None:
    """In flight over time, a panel for each way to keep the limit."""
    limit = results["load"]["limit"]
    axes[0].set_ylabel("requests in flight")
    for panel, name in zip(axes, MODES, strict=True):
        figures = results["modes"][name]
        style.steps(panel, figures["timeline"], figures["seconds"], name)
        style.limit_line(panel, limit, "limit" if name == MODES[0] else "")
        panel.set_title(f"{name}: up to {figures['peak_in_flight']}", color=style.colour(name), loc="left", fontsize=12)
        panel.set_xlabel("seconds of load")
        panel.set_ylim(bottom=0)


def recovery(axes: Sequence[Axes], results: Results) -> None:
    """In flight around the kill, beside the limit."""
    limit = results["load"]["limit"]
    axes[0].set_ylabel("requests in flight, of living workers")
    for panel, (name, figures) in zip(axes, results["runs"].items(), strict=True):
        killed = figures["killed_at_seconds"] or 0.0
        around = [(at - killed, in_flight) for at, in_flight in figures["timeline"]]
        style.steps(panel, around, figures["seconds"] - killed, name)
        style.limit_line(panel, limit, "limit")
        panel.axvline(0, color=style.INK, linewidth=1)
        held, back = figures["held_by_killed"], figures["back_after_seconds"]
        panel.annotate(f" a worker is killed,\n it held {held}", (0, 0.4), va="bottom", fontsize=9.5)
        came = "never full again" if back is None else f"full again after {duration(back * 1e9)}"
        panel.set_title(f"{name}: {came}", color=style.colour(name), loc="left", fontsize=12)
        panel.set_xlabel("seconds from the kill")
        panel.set_ylim(0, limit * 1.25)
        panel.set_xlim(-1, min(3, figures["seconds"] - killed))


def latency(axes: Sequence[Axes], results: Results) -> None:
    """How long a reservation takes: a row for each subject, with its median and its 99th percentile."""
    rows = latency_rows(results)
    (panel,) = axes
    panel.set_xscale("log")
    for place, row in enumerate(reversed(rows)):
        edges, counts = zip(*row["reserve_distribution"], strict=True)
        heights = [place + 0.8 * count / max(counts) for count in counts]
        tint = style.colour(row["name"])
        panel.fill_between(edges, place, heights, step="post", color=tint, alpha=0.35, linewidth=0)
        figures = row["reserve_ns"]
        for name, marker in (("p50", "o"), ("p99", "|")):
            panel.plot(figures[name], place, marker, color=tint, markersize=7 if marker == "o" else 13, clip_on=False)
        panel.annotate(
            f"p50 {duration(figures['p50'])}, p99 {duration(figures['p99'])}",
            (1.0, place + 0.1), xycoords=panel.get_yaxis_transform(), ha="right", fontsize=9, color=style.INK,
        )  # fmt: skip
    panel.set_yticks(range(len(rows)), [row["name"] for row in reversed(rows)])
    panel.set_xlim(right=300 * max(row["reserve_ns"]["p99"] for row in rows))
    _durations(panel, "x")
    panel.set_xlabel(f"one reserve, {rows[0]['processes']} processes at once, clock included; dot: median, bar: p99")


def latency_rows(results: Results) -> list[Results]:
    """The subjects at the number of processes that the ratios are of."""
    return [row for row in results["subjects"] if row["processes"] == results["ratios"]["processes"]]


def peers(axes: Sequence[Axes], results: Results) -> None:
    """What a pair costs where nobody contends, and who survives a kill."""
    (panel,) = axes
    panel.set_xscale("log")
    rows = peers_rows(results)
    lost = {row["name"] for row in results["survival"] if not row["survived"]}
    for place, row in enumerate(rows):
        tint = style.colour(row["name"])
        panel.hlines(place, 10, row["pair_ns"], color=tint, linewidth=1)
        panel.plot(row["pair_ns"], place, "o", color=tint, markersize=8)
        fate = ", units lost when a holder is killed" if row["name"] in lost else ""
        panel.annotate(
            f"{duration(row['pair_ns'])}{fate}", (row["pair_ns"], place), (9, 0),
            textcoords="offset points", va="center", fontsize=9.5,
        )  # fmt: skip
    panel.set_yticks(range(len(rows)), [row["name"] for row in rows])
    panel.set_xlim(10, 1000 * rows[0]["pair_ns"])
    _durations(panel, "x")
    panel.set_xlabel("processor time of one reserve and its release, one process")


def peers_rows(results: Results) -> list[Results]:
    """The subjects with one process, the dearest first."""
    alone = [row for row in results["subjects"] if row["processes"] == min(r["processes"] for r in results["subjects"])]
    return sorted(alone, key=lambda row: -row["pair_ns"])


def contention(axes: Sequence[Axes], results: Results) -> None:
    """The same in several processes at once."""
    (panel,) = axes
    curves = {name: _curve(results["subjects"], name, "processes", "pair_ns") for name in CONTENDING}
    style.lines(panel, {name: points for name, points in curves.items() if points})
    _durations(panel, "y")
    panel.set_xlabel("processes that reserve and release all the time")
    panel.set_ylabel("processor time of a pair")


def growth(axes: Sequence[Axes], results: Results) -> None:
    """A pair beside ever more limiters that idle."""
    (panel,) = axes
    names = dict.fromkeys(row["name"] for row in results["attached"])
    style.lines(panel, {name: _curve(results["attached"], name, "attached", "pair_ns") for name in names})
    _durations(panel, "y")
    panel.set_xlabel("limiters attached, all but one idle")
    panel.set_ylabel("processor time of a pair")


def overshoot(axes: Sequence[Axes], results: Results) -> None:
    """The most in flight that was seen, below the formula."""
    (panel,) = axes
    rows = [row for row in results["subjects"] if row["name"].startswith("approximate")]
    limit = rows[0]["limit"]
    counts = sorted({row["processes"] for row in rows})
    bounds = [limit + count - 1 for count in counts]
    panel.fill_between(counts, limit, bounds, color=style.APPROXIMATE, alpha=0.1, linewidth=0)
    panel.plot(counts, bounds, color=style.APPROXIMATE, linewidth=1)
    panel.annotate(
        f"allowed: limit + (W - 1) * a\n= {bounds[-1]} for {counts[-1]} processes", (counts[-1], bounds[-1]), (-30, 0),
        textcoords="offset points", ha="right", va="top", color=style.APPROXIMATE, fontsize=9.5,
    )  # fmt: skip
    for name, marker in (("approximate/native", "o"), ("approximate/atomics", "D")):
        seen = _curve(rows, name, "processes", "peak_holders")
        if seen:
            panel.plot(*zip(*seen, strict=True), marker, color=style.APPROXIMATE, markersize=7, label=f"{name}, seen")
    style.limit_line(panel, limit)
    strict = max(row["peak_holders"] for row in results["subjects"] if row["name"].startswith("strict"))
    panel.annotate(
        f"limit; strict: up to {strict}", (counts[-1], limit), (0, -6),
        textcoords="offset points", ha="right", va="top",
    )  # fmt: skip
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.set_ylim(0.8 * limit, max(bounds) * 1.05 + 1)
    panel.legend(loc="upper left", frameon=False)
    panel.set_xlabel("processes that burst at the limit, W")
    panel.set_ylabel("most requests in flight at once")


def _curve(rows: Sequence[Results], name: str, x: str, y: str) -> list[tuple[float, float]]:
    return [(row[x], row[y]) for row in rows if row["name"] == name]


def _durations(panel: Axes, which: str) -> None:
    axis = panel.xaxis if which == "x" else panel.yaxis
    axis.set_major_formatter(lambda value, _: duration(value).replace(".00", "").replace(".0", ""))
    panel.grid(axis="x" if which == "x" else "y", color="#E6E6E6", linewidth=0.8)
    panel.set_axisbelow(True)


PICTURES: Final = (
    Picture("overload", "The same load, the same limit of 10, four workers: what really runs", "overload", overload, 3),
    Picture("recovery", "A worker is killed while the service is full", "recovery", recovery, 2),
    Picture("latency", "How long a reservation takes", "modes", latency),
    Picture("peers", "What admission costs, and who survives a killed holder", "peers", peers),
    Picture("contention", "What a pair costs when processes contend", "peers", contention),
    Picture("overshoot", "Approximate mode: what bursts reach, and what the formula allows", "overshoot", overshoot),
    Picture("growth", "What a pair costs beside ever more attached limiters", "growth", growth),
)
