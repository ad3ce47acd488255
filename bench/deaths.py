"""What it costs to recover the dead: real processes that hold a unit each are killed, and then swept up."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import NamedTuple, NoReturn

import hardcap
from bench.baselines import Gate, Hardcap


class Reaped(NamedTuple):
    """One reap in milliseconds, waited for and of processor time; how many it recovered, and what is left held."""

    wall: float
    cpu: float
    recovered: int
    left: int


@dataclass(frozen=True)
class Reaping:
    """All reaps of one subject after so many deaths each."""

    subject: Hardcap
    deaths: int
    reaps: list[Reaped]

    @property
    def wall_ms(self) -> float:
        """The median wait."""
        return median(reaped.wall for reaped in self.reaps)

    @property
    def cpu_ms(self) -> float:
        """The median processor time."""
        return median(reaped.cpu for reaped in self.reaps)

    @property
    def complete(self) -> bool:
        """Whether each reap recovered everybody, and all that they held."""
        return all((reaped.recovered, reaped.left) == (self.deaths, 0) for reaped in self.reaps)


@dataclass(frozen=True)
class Deaths:
    """A task for one process, which forks the others: it has one thread, and they need nothing but its limiter."""

    subject: Hardcap
    deaths: int

    def __call__(self, gate: Gate, start: Barrier) -> Reaped:
        with self.subject.open("bench-deaths", limit=self.deaths) as limiter:
            _kill_holders(limiter, self.deaths)
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            recovered = limiter.reap()
            cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
            return Reaped(wall / 1e6, cpu / 1e6, recovered, limiter.in_flight)


def _kill_holders(limiter: hardcap.Limiter, count: int) -> None:
    holds, told = os.pipe()
    ends, kept = os.pipe()  # which ends when this process does, so that nobody outlives it
    children = [_fork_holder(limiter, told, ends, kept) for _ in range(count)]
    os.close(told)
    with open(holds, "rb") as answers:
        holders = len(answers.read(count))
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(ends)
    os.close(kept)
    if holders < count:
        raise RuntimeError(f"{holders} of {count} children got a unit")


def _fork_holder(limiter: hardcap.Limiter, told: int, ends: int, kept: int) -> int:
    return os.fork() or _hold(limiter, told, ends, kept)


def _hold(limiter: hardcap.Limiter, told: int, ends: int, kept: int) -> NoReturn:
    try:
        os.close(kept)
        if limiter.reserve():  # with a slot of its own
            os.write(told, b"+")
            os.close(told)
            os.read(ends, 1)
    finally:
        os._exit(1)
