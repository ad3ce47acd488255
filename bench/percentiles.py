"""Percentiles as all benchmarks report them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

REPORTED = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The smallest sample that at least ``fraction`` of all samples do not exceed. ``ordered`` is ascending."""
    if not ordered:
        raise ValueError("no samples")
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def summary(samples: Iterable[float]) -> dict[str, float]:
    """Median (p50), p90, p99 and p99.9, in the unit of the samples."""
    ordered = sorted(samples)
    return {name: percentile(ordered, fraction) for name, fraction in REPORTED.items()}
