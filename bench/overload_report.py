"""What the overload benchmark prints, writes, and insists on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.overload_runs import CLIENTS, LIMIT, WORKERS, Measured

MODES: Final = ("per-process", "approximate", "strict")

_ROWS: Final = {
    "peak_in_flight": "peak in flight",
    "admitted": "admitted",
    "admitted_per_second": "admitted per s",
    "refused": "refused",
    "admitted_p50_ms": "admitted p50 ms",
    "admitted_p99_ms": "admitted p99 ms",
    "refused_p50_ms": "refused p50 ms",
    "refused_p99_ms": "refused p99 ms",
    "errors": "errors",
    "capacity_after": "free afterwards",
}


def missed(measured: Mapping[str, Measured]) -> list[str]:
    """The expectations that the figures do not meet, a line each."""
    return list(_missed(measured))


def show(measured: Mapping[str, Measured], where: machine.Machine) -> None:
    """The table, and under it the machine and what the table says."""
    console = Console()
    console.print(_table(measured))
    for text in (machine.line(where), *_lesson(measured)):
        console.print(text, highlight=False, soft_wrap=True)


def as_json(measured: Mapping[str, Measured], where: machine.Machine) -> dict[str, Any]:
    """The three modes compared stand under ``modes``; the uncapped control and the killed worker beside them."""
    return {
        "machine": where,
        "load": {"limit": LIMIT, "workers": WORKERS, "clients": CLIENTS},
        "control": measured["control"],
        "modes": {name: measured[name] for name in MODES},
        "kill": measured["kill"],
    }


def _missed(measured: Mapping[str, Measured]) -> Iterator[str]:
    peaks = {name: figures["peak_in_flight"] for name, figures in measured.items()}
    bound = LIMIT + WORKERS - 1
    if peaks["control"] <= 4 * LIMIT:
        yield f"control: peak in flight is {peaks['control']}, expected more than {4 * LIMIT}"
    if peaks["per-process"] <= 2 * LIMIT:
        yield f"per-process: peak in flight is {peaks['per-process']}, expected more than {2 * LIMIT}"
    if not LIMIT <= peaks["approximate"] <= bound:
        yield f"approximate: peak in flight is {peaks['approximate']}, expected {LIMIT} to {bound}"
    for name in ("strict", "kill"):
        if peaks[name] != LIMIT:
            yield f"{name}: peak in flight is {peaks[name]}, expected exactly {LIMIT}"
    for name in ("approximate", "strict", "kill"):
        if (free := measured[name]["capacity_after"]) != LIMIT:
            yield f"{name}: {free} units can be reserved afterwards, expected exactly {LIMIT}"
    yield from _missed_after_kill(measured["kill"])
    for name in ("control", *MODES):
        if errors := measured[name]["errors"]:
            cause = next(iter(measured[name]["error_causes"]))
            yield f"{name}: {errors} requests failed, expected none; most of them: {cause}"


def _missed_after_kill(kill: Measured) -> Iterator[str]:
    if not kill["held_by_killed"]:
        yield f"kill: {LIMIT} were never in flight, so no worker was killed"
    elif kill["back_after_seconds"] is None:
        yield f"kill: the {kill['held_by_killed']} units of the killed worker did not come back"


def _table(measured: Mapping[str, Measured]) -> Table:
    title = f"limit {LIMIT}, {WORKERS} uvicorn workers, {CLIENTS} clients that never stop asking"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in measured:
        table.add_column(name, justify="right")
    for key, label in _ROWS.items():
        style = "bold" if key == "peak_in_flight" else None
        table.add_row(label, *(_cell(figures.get(key)) for figures in measured.values()), style=style)
    return table


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _lesson(measured: Mapping[str, Measured]) -> Iterator[str]:
    peak = {name: figures["peak_in_flight"] for name, figures in measured.items()}
    yield (
        f"a limit of {LIMIT} kept by each worker let {peak['per-process']} run at once; "
        f"shared it let {peak['approximate']} (approximate) and {peak['strict']} (strict)"
    )
    kill = measured["kill"]
    if kill["back_after_seconds"] is not None:
        yield (
            f"a worker was killed holding {kill['held_by_killed']} of {kill['in_flight_before']} units: "
            f"{LIMIT} were in flight again after {1000 * kill['back_after_seconds']:.0f} ms"
        )
