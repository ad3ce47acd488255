"""One pair against another, round by round, and what it is meant to be at most."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from bench.comparison import Goal
from bench.figures import Figures


@dataclass(frozen=True)
class Ratio:
    """Two figures of the same rounds, and the most that the one is meant to be of the other."""

    name: str
    own: Figures
    other: Figures
    allowed: float

    @property
    def own_ns(self) -> float:
        """The median pair."""
        return median(self.own.pair_ns)

    @property
    def other_ns(self) -> float:
        """The median of what it is measured against."""
        return median(self.other.pair_ns)

    @property
    def observed(self) -> float:
        """The median over rounds, each against the same round. It is what decides."""
        return self.own.ratio(self.other)

    @property
    def of_least(self) -> float:
        """The shortest pair to the shortest: what is left where nothing disturbs."""
        return min(self.own.pair_ns) / min(self.other.pair_ns)

    @property
    def goal(self) -> Goal:
        """It met or missed."""
        return Goal(self.name, self.observed, self.allowed, "x")

    def as_json(self) -> dict[str, object]:
        """The goal and the figures behind it, pairs in nanoseconds."""
        figures = {"of_least": self.of_least, "own_ns": self.own_ns, "other_ns": self.other_ns}
        return self.goal.as_json() | figures
