"""The knee of a service: the fewest requests in flight that bring nearly all of its throughput, and how sure that is.

The figures of a step are drawn again from its own windows many times (a bootstrap); where the knee comes out elsewhere
each time, it is noise. By Little's law a service serves `throughput x latency` requests at once, so the greatest
throughput times the latency that a request has when it is alone says how many are served and do not merely wait.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Final

from bench.percentiles import percentile

ENOUGH: Final = 0.95  # of the greatest throughput
RESAMPLINGS: Final = 500
RANGE: Final = (0.05, 0.95)  # of the resamplings
WIDEST: Final = 2.0  # high / low of a range that is not mere noise
STEADY: Final = 0.35  # of the throughput: between the quartiles of its windows, at the median level
DEEPEST: Final = 0.3  # of a dip between two levels that bring more
AGREEING: Final = 1.5  # the proposal to what is served at once
BUSY_DRIVER: Final = 0.85  # of a core


@dataclass(frozen=True)
class Step:
    """One level of concurrency. ``windows`` are throughputs per second; ``latencies`` ascending, in seconds."""

    in_flight: int
    windows: Sequence[float]
    latencies: Sequence[float]
    failed: float  # share of all answers
    driver: float  # processor time that the driver used, as a share of a core

    @property
    def throughput(self) -> float:
        """Requests served per second."""
        return undisturbed(self.windows)

    @property
    def spread(self) -> float:
        """From the lower to the upper quartile of the windows, as a share of the median."""
        low, middle, high = quantiles(self.windows, n=4, method="inclusive")
        return (high - low) / middle if middle else 0.0


@dataclass(frozen=True)
class Verdict:
    """A limit with the range of those that resampling proposes, and what speaks against it; or why there is none."""

    limit: int | None = None
    low: int = 0
    high: int = 0
    served_at_once: float = 0.0
    doubts: tuple[str, ...] = ()
    reason: str = ""

    @property
    def sure(self) -> bool:
        """Whether there is a limit, and nothing speaks against it."""
        return self.limit is not None and not self.doubts

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"sure": self.sure}


def undisturbed(windows: Sequence[float]) -> float:
    """The upper quartile: whatever else runs on the machine only slows a service."""
    return quantiles(windows, n=4, method="inclusive")[2]


def knee(throughputs: Mapping[int, float]) -> int:
    """The least concurrency with ``ENOUGH`` of the greatest throughput."""
    enough = ENOUGH * max(throughputs.values())
    return min(level for level, throughput in throughputs.items() if throughput >= enough)


def judge(steps: Sequence[Step], stopped: str = "") -> Verdict:
    """What the steps, ascending, say. ``stopped`` is why the load did not rise any further, if something went wrong."""
    if not steps:
        return Verdict(reason=stopped)
    if noise := _noise(steps):
        return Verdict(reason=f"not sure, noise: {noise}")
    drawn = resampled(steps)
    largest = steps[-1].in_flight
    if percentile(drawn, RANGE[1]) == largest:
        return Verdict(reason=stopped or f"not sure: throughput still rises at {largest} in flight, the most allowed")
    return _proposed(steps, drawn, stopped)


def resampled(steps: Sequence[Step]) -> list[int]:
    """The knees of ``RESAMPLINGS`` drawings, ascending; of the same steps always the same."""
    draw = random.Random(0)
    return sorted(
        knee({step.in_flight: undisturbed(draw.choices(step.windows, k=len(step.windows))) for step in steps})
        for _ in range(RESAMPLINGS)
    )


def _noise(steps: Sequence[Step]) -> str:
    if (spread := median(step.spread for step in steps)) > STEADY:
        return f"throughput varies by {spread:.0%} at one and the same level"
    throughputs = [step.throughput for step in steps]
    for at, step in enumerate(steps[1:-1], 1):
        if step.throughput < (1 - DEEPEST) * min(max(throughputs[:at]), max(throughputs[at + 1 :])):
            return f"{step.in_flight} in flight bring less than fewer do, and than more"
    return ""


def _proposed(steps: Sequence[Step], drawn: Sequence[int], stopped: str) -> Verdict:
    low, high = (int(percentile(drawn, fraction)) for fraction in RANGE)
    if high > max(WIDEST * low, low + 2):
        return Verdict(reason=f"not sure, noise: the knee is anywhere from {low} to {high} in flight")
    limit = knee({step.in_flight: step.throughput for step in steps})
    served = max(step.throughput for step in steps) * median(steps[0].latencies)
    return Verdict(limit, low, high, served, tuple(_doubts(steps, limit, served, stopped)))


def _doubts(steps: Sequence[Step], limit: int, served: float, stopped: str) -> Iterator[str]:
    if stopped:
        yield stopped
    if not served / AGREEING <= limit <= max(served, 1) * AGREEING:
        yield f"by Little's law {served:.1f} are served at once, the proposal is {limit}: the knee is a soft one"
    driver = max(step.driver for step in steps if step.in_flight >= limit)
    if driver > BUSY_DRIVER:
        yield f"the driver used {driver:.0%} of a core: the knee may be its own"
