"""What it costs to attach to a segment that is there, and how large that is."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.baselines import Hardcap

TIMES: Final = 50
LIMIT: Final = 10
NAME: Final = "bench-attach"


class Attach(NamedTuple):
    """One attach in milliseconds: as waited for, and of processor time, which no neighbour on the machine delays."""

    wall: float
    cpu: float


class AttachCost(NamedTuple):
    """Every attach to one subject's segment, and the size of that in bytes."""

    subject: Hardcap
    attaches: list[Attach]
    segment_bytes: int

    @property
    def wall_ms(self) -> float:
        """The median wait."""
        return median(attach.wall for attach in self.attaches)

    @property
    def cpu_ms(self) -> float:
        """The median processor time."""
        return median(attach.cpu for attach in self.attaches)


def attach_cost(subject: Hardcap, times: int = TIMES) -> AttachCost:
    """Attach so many times, one after the other, to a segment that somebody else keeps."""
    with subject.open(NAME, LIMIT):
        attaches = [_attach(subject) for _ in range(times)]
        return AttachCost(subject, attaches, segment_bytes(subject, NAME))


def segment_bytes(subject: Hardcap, name: str) -> int:
    """The size of a segment that is there."""
    return max(path.stat().st_size for path in Path(subject.directory).glob(f"*{name}*"))


def _attach(subject: Hardcap) -> Attach:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    limiter = subject.open(NAME, LIMIT)
    attach = Attach((time.perf_counter_ns() - wall) / 1e6, (time.process_time_ns() - cpu) / 1e6)
    limiter.close()
    return attach
