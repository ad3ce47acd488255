"""What it costs to attach to a segment that is there, and how large that is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.baselines import Hardcap

TIMES: Final = 50
LIMIT: Final = 10
NAME: Final = "bench-attach"


class AttachCost(NamedTuple):
    """Each attach in milliseconds, and the size of the segment in bytes."""

    subject: Hardcap
    milliseconds: list[float]
    segment_bytes: int


def attach_cost(subject: Hardcap) -> AttachCost:
    """Attach ``TIMES`` times, one after the other, to a segment that somebody else keeps."""
    with subject.open(NAME, LIMIT):
        milliseconds = [_attach(subject) for _ in range(TIMES)]
        size = max(path.stat().st_size for path in Path(subject.directory).glob(f"*{NAME}*"))
    return AttachCost(subject, milliseconds, size)


def _attach(subject: Hardcap) -> float:
    began = time.perf_counter_ns()
    limiter = subject.open(NAME, LIMIT)
    elapsed = time.perf_counter_ns() - began
    limiter.close()
    return elapsed / 1e6
