"""One process releases, another waits: how long until it is admitted, and what it costs that many wait."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from random import Random
from typing import Final

import hardcap
from bench import machine, processes, stage
from bench.baselines import Context, Hardcap
from bench.comparison import Goal
from bench.crew import WorkerFailed
from bench.machine import Machine
from bench.percentiles import summary
from bench.rounds import Step
from hardcap import bell
from hardcap.waiting import queue_of

NAME: Final = "bench-waiting"
WAITERS: Final = 100
LATENCY_GOAL_MS: Final = 10.0  # at the median
COST_GOAL: Final = 1.0  # per cent of a core
PATIENCE: Final = 60.0  # seconds: who is silent for so long hangs
HELD: Final = (0.002, 0.06)  # seconds that the unit is held while the other waits: longer, too, than one sleep takes

Admit = Callable[[hardcap.Limiter], hardcap.Permit]


def by_thread(limiter: hardcap.Limiter) -> hardcap.Permit:
    """Wait in a thread."""
    return limiter.admit(timeout=None)


def by_task(limiter: hardcap.Limiter) -> hardcap.Permit:
    """Wait in a task of an event loop that runs for this alone: its start is over long before the release."""
    return asyncio.run(limiter.admit_async(timeout=None))


WAYS: Final[dict[str, Admit]] = {"thread": by_thread, "asyncio": by_task}
SLEEPS: Final = ("futex", "polling")


@dataclass(frozen=True)
class Plan:
    """How often, and for how long."""

    rounds: int
    seconds: float


FULL: Final = Plan(300, 5.0)
QUICK: Final = Plan(30, 1.0)


@dataclass(frozen=True)
class Waited:
    """Nanoseconds from each release to the admission; the share of a core that many waiters take."""

    subject: str
    way: str
    sleep: str
    latencies: list[int]
    cost: float

    def as_json(self) -> dict[str, object]:
        named = {"subject": self.subject, "way": self.way, "sleep": self.sleep}
        return named | {"latency_ns": summary(self.latencies), "samples": len(self.latencies), "cost": self.cost}


@dataclass(frozen=True)
class Waiting:
    """All that was found."""

    machine: Machine
    cells: list[Waited]

    @property
    def sound(self) -> bool:
        """Whether nobody was admitted before the one unit there is was released."""
        return all(min(cell.latencies) > 0 for cell in self.cells)

    def goals(self) -> list[Goal]:
        """The slowest of each sleep, and the dearest of all."""
        cost = max(cell.cost for cell in self.cells)
        return [
            *(Goal(f"median wait, by {sleep}", self._slowest(sleep) / 1e6, LATENCY_GOAL_MS, "ms") for sleep in SLEEPS),
            Goal(f"{WAITERS} waiters", 100 * cost, COST_GOAL, "% of a core"),
        ]

    def as_json(self) -> dict[str, object]:
        return {
            "machine": self.machine,
            "waiters": WAITERS,
            "cells": [cell.as_json() for cell in self.cells],
            "goals": [goal.as_json() for goal in self.goals()],
            "sound": self.sound,
        }

    def _slowest(self, sleep: str) -> float:
        return max(summary(cell.latencies)["p50"] for cell in self.cells if cell.sleep == sleep)


def measure(plan: Plan, scratch: Path | None) -> Waiting:
    """Every mode, way and sleep, one after the other."""
    context = processes.context(["bench.waiting_runs"])
    with stage.segments(scratch) as directory:
        subjects = stage.fastest_first(stage.modes(directory))
        cells = list(itertools.product(subjects, WAYS, SLEEPS))
        with stage.progress(len(cells)) as step:
            found = [_cell(context, *cell, plan, step) for cell in cells]
    return Waiting(machine.describe(subjects[0].backend), found)


def _cell(context: Context, subject: Hardcap, way: str, sleep: str, plan: Plan, step: Step) -> Waited:
    step(f"{subject.name}: {way}, {sleep}")
    ours, theirs = Pipe()
    with subject.open(NAME, limit=1) as limiter, ours:
        process = context.Process(target=_wait, args=(theirs, subject, way, sleep, plan), daemon=True)
        process.start()
        theirs.close()
        try:
            latencies = [_release(limiter, ours, number) for number in range(plan.rounds)]
            with limiter.admit(timeout=PATIENCE):  # until the others are gone: they wait for nothing else
                ours.send("go")
                cost = _hear(ours)
                process.kill()
                process.join()
        finally:
            process.kill()
            process.join()
    return Waited(subject.name, way, sleep, latencies, cost)


def _hear(end: Connection) -> float:
    try:
        if end.poll(PATIENCE):
            return float(end.recv())
    except EOFError:
        pass
    raise WorkerFailed("the process that waits has ended, or hangs")


def _release(limiter: hardcap.Limiter, other: Connection, number: int) -> int:
    """One round: hold the unit until the other waits for it, and a while longer."""
    permit = limiter.admit(timeout=PATIENCE)
    other.send("wait")
    _hear(other)
    time.sleep(Random(number).uniform(*HELD))
    released = time.monotonic_ns()
    permit.release()
    return round(_hear(other)) - released


def _wait(other: Connection, subject: Hardcap, way: str, sleep: str, plan: Plan) -> None:
    """The other process."""
    if sleep == "polling":
        bell._futex = None
    with subject.open(NAME, limit=1) as limiter:
        for _ in range(plan.rounds):
            other.recv()
            telling = threading.Thread(target=_tell_when_in_line, args=(limiter, 1, other))
            telling.start()
            permit = WAYS[way](limiter)
            admitted = time.monotonic_ns()
            permit.release()
            telling.join()
            other.send(admitted)
        other.recv()
        other.send(_cost(limiter, WAYS[way], plan.seconds))
        other.recv()  # nothing comes: killed


def _tell_when_in_line(limiter: hardcap.Limiter, count: int, other: Connection) -> None:
    _until_in_line(limiter, count)
    other.send(0)


def _until_in_line(limiter: hardcap.Limiter, count: int) -> None:
    while len(queue_of(limiter._connection)) < count:
        time.sleep(0.001)


def _cost(limiter: hardcap.Limiter, admit: Admit, seconds: float) -> float:
    for _ in range(WAITERS):
        threading.Thread(target=admit, args=(limiter,), daemon=True).start()
    _until_in_line(limiter, WAITERS)
    wall, cpu = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu) / (time.monotonic() - wall)
