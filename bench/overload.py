"""Four uvicorn workers, a limit of 10, and 80 requests in flight all the time: how many run at once?

Without a cap, with a private cap in each worker, and with one shared cap in both modes; then a worker is killed while
the service is full. What runs at once is counted by an independent witness inside the application.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from bench import machine, results

NAME: Final = "overload"
HELP: Final = "on real servers: what one shared cap does under overload, and when a worker is killed"

NEEDS: Final = ("uvicorn", "uvloop", "httptools", "starlette", "aiohttp")
QUICK_SECONDS: Final = 1.5  # of load in each run
FULL_SECONDS: Final = 12.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench overload``."""
    parser.add_argument("--quick", action="store_true", help="shorter runs: done within 25 s, instead of 90 s")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE too")
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=_port, default=0, help="port on loopback (default: any free one)")


def run(args: argparse.Namespace) -> int:
    """Measure and print. 0: it shows what it must; 1: the last lines on stderr say what it does not show."""
    destination = results.json_destination(args.json) if args.json else None
    results.require(NEEDS)
    from bench import overload_report, overload_runs  # what they import is not installed everywhere

    measured = overload_runs.measure_all(args.port, args.seconds or (QUICK_SECONDS if args.quick else FULL_SECONDS))
    where = machine.describe(measured["strict"]["backend"])
    missed = overload_report.missed(measured)
    overload_report.show(measured, where)
    if destination:
        results.write_json(destination, overload_report.as_json(measured, where) | {"missed": missed})
    for expectation in missed:
        print(f"bench overload: {expectation}", file=sys.stderr)
    return 1 if missed else 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"port is '{text}', allowed: 0 to 65535")
    return int(text)
