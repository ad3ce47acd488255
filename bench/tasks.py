"""What each process of a crew does at once: a tight loop, timed calls, bursts at the limit."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Final, NamedTuple, Self

from bench.baselines import Gate
from bench.witness import Witness

BARRIER_SECONDS: Final = 60.0
LEAD_SECONDS: Final = 0.015
BATCH: Final = 16  # pairs between two looks at the clock, in the tight loop
INSTANT_NS: Final = 500_000  # between two instants at which a burst may begin
WARM_UP: Final = 8  # pairs before the barrier


class Window(NamedTuple):
    """From when to when, by ``perf_counter_ns``, which is one clock for all processes of a Linux host."""

    begins_ns: int
    ends_ns: int

    @classmethod
    def of(cls, seconds: float) -> Self:
        """One that begins when everybody had time to get the order and warm up."""
        begins = time.perf_counter_ns() + round(LEAD_SECONDS * 1e9)
        return cls(begins, begins + round(seconds * 1e9))


class Pace(NamedTuple):
    """A tight loop in one process. ``cpu_ns`` is its processor time: what it did, not how long it waited to run."""

    pairs: int
    refused: int
    began_ns: int
    ended_ns: int
    cpu_ns: int


class Latencies(NamedTuple):
    """How often each duration in nanoseconds came, of every call in one process."""

    reserve: Counter[int]
    release: Counter[int]
    timer: Counter[int]
    refused: int


class Tally(NamedTuple):
    """Reservations asked for at the limit, in one process."""

    admitted: int
    refused: int


@dataclass(frozen=True)
class TightLoop:
    """Pairs as fast as they go, none of them timed."""

    window: Window

    def __call__(self, gate: Gate, start: Barrier) -> Pace:
        reserve, release, clock, ends = gate.reserve, gate.release, time.perf_counter_ns, self.window.ends_ns
        _line_up(gate, start, self.window)
        tried = refused = 0
        cpu, began = time.process_time_ns(), clock()
        now = 0
        while now < ends:
            for _ in range(BATCH):
                if reserve():
                    release()
                else:
                    refused += 1
            tried += BATCH
            now = clock()
        return Pace(tried - refused, refused, began, now, time.process_time_ns() - cpu)


@dataclass(frozen=True)
class TimedCalls:
    """Every call timed alone, and beside each pair the clock itself."""

    window: Window

    def __call__(self, gate: Gate, start: Barrier) -> Latencies:
        reserve, release, clock, ends = gate.reserve, gate.release, time.perf_counter_ns, self.window.ends_ns
        reserved: list[int] = []
        released: list[int] = []
        timer: list[int] = []
        _line_up(gate, start, self.window)
        now = 0
        while now < ends:
            before = clock()
            admitted = reserve()
            now = clock()
            timer.append(clock() - now)
            reserved.append(now - before)
            if admitted:
                before = clock()
                release()
                released.append(clock() - before)
        refused = len(reserved) - len(released)
        return Latencies(Counter(reserved), Counter(released), Counter(timer), refused)


@dataclass(frozen=True)
class Bursts:
    """Each process asks for ``attempts`` units at once and keeps what it got until all have asked.

    The witness is entered after a unit is admitted and left before it is released, so it never sees more holders
    than there are.
    """

    bursts: int
    attempts: int
    witness: str

    def __call__(self, gate: Gate, start: Barrier) -> Tally:
        with closing(Witness(self.witness)) as witness:
            admitted = sum(self._burst(gate, start, witness) for _ in range(self.bursts))
        return Tally(admitted, self.bursts * self.attempts - admitted)

    def _burst(self, gate: Gate, start: Barrier, witness: Witness) -> int:
        start.wait(BARRIER_SECONDS)
        _spin_to_a_common_instant()
        admitted = sum(gate.reserve() for _ in range(self.attempts))
        tokens = [witness.enter() for _ in range(admitted)]
        start.wait(BARRIER_SECONDS)
        for token in tokens:
            witness.leave(token)
            gate.release()
        return admitted


def _spin_to_a_common_instant() -> None:
    """Who leaves the barrier one after the other asks at once nevertheless, as far as there are cores."""
    instant = (time.perf_counter_ns() // INSTANT_NS + 2) * INSTANT_NS
    while time.perf_counter_ns() < instant:
        pass


def _line_up(gate: Gate, start: Barrier, window: Window) -> None:
    for _ in range(WARM_UP):
        if gate.reserve():
            gate.release()
    wait_for(start, window)


def wait_for(start: Barrier, window: Window) -> None:
    """Until everybody is ready and the window begins."""
    start.wait(BARRIER_SECONDS)
    time.sleep(max(0, window.begins_ns - time.perf_counter_ns()) / 1e9)
