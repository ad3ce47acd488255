"""hardcap beside what else keeps processes of one host together, and who of them survives a killed holder.

All work on one semaphore or segment at the same time, with room for everybody. A missed goal is shown; it is no
failure. Exit status: 0 the figures are complete, whatever they are; 1 hardcap lost what a killed process held, the
check missed that the semaphore did, or a process failed; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from bench import stage
from bench.results import require

NAME: Final = "peers"
HELP: Final = "hardcap beside its peers: a pair, throughput, and who survives a killed holder"

PACKAGES: Final = ("filelock", "portalocker", "posix_ipc", "redis", "sysv_ipc")
EVERY: Final = 4  # rounds of the two that the goals compare, to one of everybody


@dataclass(frozen=True)
class Plan:
    """``laps`` rounds in one process; in several, ``rounds`` of ``seconds`` for each subject."""

    processes: tuple[int, ...]
    laps: int
    rounds: int
    seconds: float

    def everybody(self, turn: int) -> bool:
        """Whether all subjects have their turn, or only those that are compared most closely."""
        return turn % EVERY == 0

    def steps(self, subjects: int, compared: int) -> int:
        """How many steps are reported."""
        crowd = sum(subjects if self.everybody(turn) else compared for turn in range(self.rounds))
        return self.laps + sum(count > 1 for count in self.processes) * crowd + 2


QUICK: Final = Plan(processes=(1, 2, 4, 8, 16), laps=100, rounds=9, seconds=0.03)
FULL: Final = Plan(processes=(1, 2, 4, 8, 16), laps=1000, rounds=41, seconds=0.1)


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench peers``."""
    stage.configure(parser, "fewer and shorter rounds: 30 s instead of 3 minutes")
    parser.add_argument("--processes", type=stage.counts, help=argparse.SUPPRESS)
    parser.add_argument("--laps", type=int, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Compare all of them; print it, and write JSON if asked."""
    require(PACKAGES)
    from bench import peers_report, peers_runs  # only now: they need the packages

    plan = stage.adapted(QUICK if args.quick else FULL, args, "processes", "laps", "rounds", "seconds")
    return stage.conclude(NAME, args, lambda: peers_runs.compare(plan, args.scratch), peers_report.show)
