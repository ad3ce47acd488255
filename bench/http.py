"""What hardcap costs in front of an ASGI application: called directly, and on uvicorn with two workers.

A missed goal is shown; it is no failure. Exit status: 0 the figures are complete; 1 a request failed, the middleware
that is too slow on purpose was not seen to be, or a process failed; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from bench import stage
from bench.results import require

NAME: Final = "http"
HELP: Final = "what hardcap costs in front of an ASGI application, directly and on uvicorn"

PACKAGES: Final = ("uvicorn", "uvloop", "httptools", "starlette", "aiohttp")


@dataclass(frozen=True)
class Plan:
    """``laps`` rounds of direct calls; on servers ``rounds`` of ``seconds`` of each load."""

    laps: int
    rounds: int
    seconds: float


QUICK: Final = Plan(laps=100, rounds=15, seconds=0.25)
FULL: Final = Plan(laps=500, rounds=61, seconds=0.25)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench http``."""
    stage.configure(parser, "fewer and shorter rounds: 30 s instead of 2 minutes")
    parser.add_argument("--laps", type=int, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure; print it, and write JSON if asked."""
    require(PACKAGES)
    from bench import http_report, http_runs  # only now: they need the packages

    plan = stage.adapted(QUICK if args.quick else FULL, args, "laps", "rounds", "seconds")
    return stage.conclude(NAME, args, lambda: http_runs.measure(plan, args.scratch), http_report.show)
