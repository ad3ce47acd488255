"""Capacity over time around a kill: uvicorn workers under overload behind one hardcap limit, and behind a semaphore.

The worker that holds most is killed while the service is full. Exit status: 0 what it held came back with hardcap and
stayed lost with the semaphore, the control; 1 not so; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench import machine, results, tables

NAME: Final = "recovery"
HELP: Final = "capacity over time around a kill: hardcap beside a semaphore"

NEEDS: Final = ("uvicorn", "uvloop", "httptools", "starlette", "aiohttp", "posix_ipc")
QUICK_SECONDS: Final = 2.0  # of load in each run, with the kill in the middle
FULL_SECONDS: Final = 8.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench recovery``."""
    parser.add_argument("--quick", action="store_true", help="shorter runs: 10 s instead of 25 s")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE too")
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    destination = results.json_destination(args.json) if args.json else None
    results.require(NEEDS)
    from bench import recovery_runs  # what it imports is not installed everywhere

    measured = recovery_runs.measure(args.seconds or (QUICK_SECONDS if args.quick else FULL_SECONDS))
    where = machine.describe(measured["hardcap"]["backend"])
    missing = list(missed(measured, recovery_runs.LIMIT))
    _show(measured, recovery_runs.LIMIT, where)
    if destination:
        load = {"limit": recovery_runs.LIMIT, "workers": recovery_runs.WORKERS, "clients": recovery_runs.CLIENTS}
        results.write_json(destination, {"machine": where, "load": load, "runs": measured, "missed": missing})
    for expectation in missing:
        print(f"bench recovery: {expectation}", file=sys.stderr)
    return 1 if missing else 0


def missed(measured: Mapping[str, Mapping[str, Any]], limit: int) -> Iterator[str]:
    """The expectations that the figures do not meet, a line each."""
    for name, figures in measured.items():
        if not figures["held_by_killed"]:
            yield f"{name}: {limit} were never in flight, so no worker was killed"
    own, other = measured["hardcap"], measured["semaphore"]
    if own["back_after_seconds"] is None:
        yield f"hardcap: {own['peak_after_kill']} in flight after the kill, expected {limit} again"
    if own["capacity_after"] != limit:
        yield f"hardcap: {own['capacity_after']} units can be reserved afterwards, expected exactly {limit}"
    if (left := limit - other["held_by_killed"]) < other["peak_after_kill"]:
        yield f"semaphore: {other['peak_after_kill']} in flight after the kill, expected at most {left}"


def _show(measured: Mapping[str, Mapping[str, Any]], limit: int, where: machine.Machine) -> None:
    console = tables.console()
    made = tables.table("A worker is killed while all units are in use", "units", "it held", "later", "all again")
    for name, figures in measured.items():
        back = figures["back_after_seconds"]
        after = "never" if back is None else tables.duration(back * 1e9)
        made.add_row(name, *map(str, (limit, figures["held_by_killed"], figures["peak_after_kill"], after)))
    console.print(made)
    console.print(machine.line(where))
