"""What hardcap costs in front of an application: all figures of one run, the goals, and what vouches for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench import http_direct
from bench.baselines import Hardcap
from bench.clients import Tally
from bench.comparison import Goal
from bench.figures import Figures
from bench.http_direct import AGAIN, BARE, CORS, CORS_ORIGIN, HARDCAP, REFUSAL, ROUTE, SPINNING
from bench.machine import Machine
from bench.percentiles import percentile
from bench.ratios import Ratio

ADDED_GOAL: Final = 1.0
REFUSAL_GOAL: Final = 0.5
PACE_GOAL: Final = 0.97
REFUSALS_GOAL: Final = 3.0
TAIL_GOAL: Final = 1.2


@dataclass(frozen=True)
class Least(Goal):
    """A figure with the least it is meant to be."""

    @property
    def met(self) -> bool:
        return self.observed >= self.allowed


@dataclass
class Load:
    """One side of the comparison on servers: paces by round; how long, in seconds, whoever was admitted took."""

    admitted_per_second: list[float] = field(default_factory=list)
    refused_per_second: list[float] = field(default_factory=list)
    admitted_per_processor_second: list[float] = field(default_factory=list)
    admitted: list[float] = field(default_factory=list)
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, tally: Tally, seconds: float, processor_seconds: float) -> None:
        """One round, with the processor time that the workers took."""
        self.admitted_per_second.append(len(tally.admitted) / seconds)
        self.refused_per_second.append(len(tally.refused) / seconds)
        self.admitted_per_processor_second.append(len(tally.admitted) / processor_seconds)
        self.admitted += tally.admitted
        self.refused += len(tally.refused)
        self.errors += tally.errors

    def seconds(self, fraction: float) -> float:
        """A percentile of all rounds; infinite where nobody was admitted."""
        return percentile(sorted(self.admitted) or [math.inf], fraction)

    def as_json(self) -> dict[str, object]:
        """Medians over rounds, and what was counted in all."""
        return {
            "admitted_per_second": median(self.admitted_per_second),
            "refused_per_second": median(self.refused_per_second),
            "admitted_per_processor_second": median(self.admitted_per_processor_second),
            "admitted_p50_ms": 1000 * self.seconds(0.5),
            "admitted_p99_ms": 1000 * self.seconds(0.99),
            "admitted": len(self.admitted),
            "refused": self.refused,
            "errors": dict(self.errors),
            "rounds": len(self.admitted_per_second),
        }


@dataclass(frozen=True)
class Http:
    """``direct`` by the names of ``http_direct``, ``loads`` by those of ``http_runs.SIDES``."""

    machine: Machine
    mode: Hardcap
    direct: Mapping[str, Figures]
    loads: Mapping[str, Load]

    @property
    def failed(self) -> dict[str, Counter[str]]:
        """What went wrong, by side, where something did; a refusal too, where there was room."""
        found = {name: load.errors for name, load in self.loads.items() if load.errors}
        roomy = {name: load.refused for name, load in self.loads.items() if name != "overloaded" and load.refused}
        return found | {name: Counter({"refused where there was room": count}) for name, count in roomy.items()}

    @property
    def blind(self) -> list[str]:
        """Where the middleware that is too slow on purpose seems to be fast enough: directly, or by both paces."""
        direct = self._added(SPINNING, CORS).goal
        paces = self._paces("spinning")
        return [goal.name for goal in [direct] if goal.met] + [goal.name for goal in paces if all(g.met for g in paces)]

    @property
    def blurred(self) -> list[str]:
        """The paces that do not show 200 us more, on a machine too busy for them: what they say of hardcap is void."""
        return [goal.name for goal in self._paces("spinning") if goal.met]

    @property
    def sound(self) -> bool:
        """Whether every request was answered, before an eye that sees 200 us."""
        return not self.failed and not self.blind

    def ratios(self) -> list[Ratio]:
        """The goals of direct calls."""
        figures = self.direct
        return [
            self._added(HARDCAP, CORS),
            self._added(HARDCAP, CORS_ORIGIN),
            Ratio(f"{REFUSAL} / {ROUTE}", figures[REFUSAL], figures[ROUTE], REFUSAL_GOAL),
        ]

    def controls(self) -> list[Ratio]:
        """What says how far the ratios of direct calls can be believed."""
        return [Ratio(f"{BARE} / {AGAIN}", self.direct[BARE], self.direct[AGAIN], 1.0), self._added(SPINNING, CORS)]

    def goals(self) -> list[Goal]:
        """The goals on servers."""
        loads = self.loads
        refusals = _ratio(loads["overloaded"].refused_per_second, loads["bare"].admitted_per_second)
        tail = loads["overloaded"].seconds(0.99) / loads["unloaded"].seconds(0.99)
        return [
            *self._paces("hardcap"),
            Least("refusals a second, overloaded / requests, bare", refusals, REFUSALS_GOAL, "x"),
            Goal("p99 of the admitted, overloaded / unloaded", tail, TAIL_GOAL, "x"),
        ]

    def server_controls(self) -> list[Goal]:
        """What says how far these can be believed: the same twice, and what is too slow."""
        return [*self._paces("bare again"), *self._paces("spinning")]

    def as_json(self) -> dict[str, object]:
        """The whole of it; the unit of a figure is the end of its name."""
        return {
            "machine": self.machine,
            "mode": self.mode.mode,
            "direct": [
                {"name": name, "request_ns": median(row.pair_ns), "least_request_ns": min(row.pair_ns)}
                for name, row in self.direct.items()
            ],
            "servers": {name: load.as_json() for name, load in self.loads.items()},
            "goals": [*(ratio.as_json() for ratio in self.ratios()), *(goal.as_json() for goal in self.goals())],
            "controls": [
                *(ratio.as_json() for ratio in self.controls()),
                *(goal.as_json() for goal in self.server_controls()),
            ],
            "failed": self.failed,
            "blind": self.blind,
            "blurred": self.blurred,
            "sound": self.sound,
        }

    def _added(self, name: str, other: str) -> Ratio:
        own, others = (http_direct.added(self.direct, behind) for behind in (name, other))
        return Ratio(f"added: {name} / {other}", own, others, ADDED_GOAL)

    def _paces(self, name: str) -> list[Goal]:
        own, bare = self.loads[name], self.loads["bare"]
        pace = _ratio(own.admitted_per_second, bare.admitted_per_second)
        thrift = _ratio(own.admitted_per_processor_second, bare.admitted_per_processor_second)
        return [
            Least(f"requests a second, {name} / bare", pace, PACE_GOAL, "x"),
            Least(f"requests a processor second, {name} / bare", thrift, PACE_GOAL, "x"),
        ]


def _ratio(own: list[float], other: list[float]) -> float:
    """The median over rounds, each against the same round."""
    return median(one / another for one, another in zip(own, other, strict=True))
