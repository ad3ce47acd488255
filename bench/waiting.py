"""Waiting: how long from a release in one process to the admission in another, and what a hundred waiters cost.

By futex, and by bounded polling as where there is none; in a thread and in an asyncio task. A missed goal is shown; it
is no failure. Exit status: 0 every wait ended, once the unit was free; 1 one did not, or a process failed; 2 this
cannot run here.
"""

from __future__ import annotations

import argparse
from typing import Final

from bench import machine, stage, tables, waiting_runs
from bench.percentiles import summary
from bench.waiting_runs import FULL, QUICK, WAITERS, Waiting

NAME: Final = "waiting"
HELP: Final = "from a release to the admission of one who waits, and what waiting costs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench waiting``."""
    stage.configure(parser, "fewer rounds: 1 minute instead of 4")


def run(args: argparse.Namespace) -> int:
    """Measure; print it, and write JSON if asked."""
    plan = stage.adapted(QUICK if args.quick else FULL, args, "rounds", "seconds")
    return stage.conclude(NAME, args, lambda: waiting_runs.measure(plan, args.scratch), show)


def show(found: Waiting) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    made = tables.table("From release to admission, between two processes", "waits by", "median", "p99", "cost of 100")
    for cell in found.cells:
        figures = summary(cell.latencies)
        times = tables.duration(figures["p50"]), tables.duration(figures["p99"])
        made.add_row(f"{cell.subject}, {cell.way}", cell.sleep, *times, f"{cell.cost:.2%}")
    console.print(made)
    console.print(f"cost: processor time of a process in which {WAITERS} wait, as a share of one core")
    for goal in found.goals():
        console.print(tables.goal_line(goal))
    console.print(machine.line(found.machine))
