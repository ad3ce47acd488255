"""How cost grows: a pair beside limiters that idle, attaching to them, and recovery after deaths.

Each limiter is an owner of its own, so a few processes hold many that idle. A missed goal is shown; it is no failure.
Exit status: 0 the figures are complete, whatever they are; 1 somebody dead was not recovered, or a process failed;
2 this cannot run here.
"""

from __future__ import annotations

import argparse
from typing import Final

from bench import growth_report, growth_runs, stage
from bench.growth_runs import FULL, QUICK

NAME: Final = "growth"
HELP: Final = "what a pair, an attach and a recovery cost beside ever more processes, idle or dead"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench growth``."""
    stage.configure(parser, "fewer rounds: 30 s instead of 2 minutes")
    parser.add_argument("--attached", type=stage.counts, help=argparse.SUPPRESS)
    parser.add_argument("--deaths", type=stage.counts, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure; print it, and write JSON if asked."""
    plan = stage.adapted(QUICK if args.quick else FULL, args, "attached", "deaths", "rounds")
    return stage.conclude(NAME, args, lambda: growth_runs.measure(plan, args.scratch), growth_report.show)
