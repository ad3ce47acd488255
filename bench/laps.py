"""A statement in the tightest loop Python has, that of ``timeit``, compiled for this statement alone.

So nothing that is compared shares bytecode, whose specialisation would carry over from one subject to the next.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from timeit import Timer
from typing import Final

from bench.baselines import Gate
from bench.figures import Figures
from bench.rounds import Step, rotated
from bench.tasks import Pace, Window, wait_for

PAIR: Final = "reserve(); release()"
LAP_NS: Final = 500_000  # far above what starting a lap costs, far below a time slice


class Lap:
    """``statement``, with ``names`` as its local variables, so often that it takes ``LAP_NS`` at least."""

    def __init__(self, statement: str, **names: object) -> None:
        # The garbage is collected as it is for users: timeit alone would put that off.
        setup = f"gc.enable(); {', '.join(names)}, = values"
        values = {"gc": gc, "values": tuple(names.values())}
        self._timer = Timer(statement, setup, time.thread_time_ns, values)
        self._times = 1
        while self._shortest_ns() < LAP_NS:
            self._times *= 2

    def _shortest_ns(self) -> int:
        # Of several, as one alone may have been interrupted, and would be cut short for good.
        return min(pace.ended_ns - pace.began_ns for pace in (self(), self(), self()))

    def __call__(self) -> Pace:
        """Once around, in the processor time of this thread."""
        began = time.perf_counter_ns()
        cpu = round(self._timer.timeit(self._times))
        return Pace(self._times, 0, began, time.perf_counter_ns(), cpu)


def pair(gate: Gate) -> Lap:
    """Bound methods in local variables. There must be room: what ``reserve`` returns is not looked at."""
    return Lap(PAIR, reserve=gate.reserve, release=gate.release)


def alternate(laps: Sequence[Lap], figures: Sequence[Figures], rounds: int, step: Step) -> None:
    """Every lap once a round, so that what disturbs one disturbs its neighbours too."""
    for turn in range(rounds):
        step(f"round {turn + 1} of {rounds}")
        for index in rotated(len(laps), turn):
            figures[index].add_paces([laps[index]()])


@dataclass(frozen=True)
class Contend:
    """A task for a crew: pairs as fast as they go, in all processes, within one window."""

    window: Window

    def __call__(self, gate: Gate, start: Barrier) -> Pace:
        lap = pair(gate)
        wait_for(start, self.window)
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        pairs = now = 0
        while now < self.window.ends_ns:
            done = lap()
            pairs, now = pairs + done.pairs, done.ended_ns
        return Pace(pairs, 0, began, now, time.process_time_ns() - cpu)
