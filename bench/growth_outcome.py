"""How cost grows with the number of attached limiters and of deaths: all figures of one run, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.attach import AttachCost
from bench.baselines import Hardcap
from bench.deaths import Reaping
from bench.figures import Figures
from bench.machine import Machine
from bench.ratios import Ratio

STRICT_GOAL = 1.1
APPROXIMATE_GOAL = 20.0
APPROXIMATE_BASE = 4


@dataclass(frozen=True)
class Attached:
    """One subject with so many limiters attached, of which one works: its pairs, and what it costs to attach more."""

    subject: Hardcap
    attached: int
    pairs: Figures
    attach: AttachCost


@dataclass(frozen=True)
class Growth:
    """``modes`` the fastest backend's first; ``segments`` is bytes by ``max_processes``."""

    machine: Machine
    modes: Sequence[Hardcap]
    cells: Sequence[Attached]
    reapings: Sequence[Reaping]
    segments: Mapping[int, int]

    @property
    def broken(self) -> list[Reaping]:
        """Where somebody dead was not recovered."""
        return [reaping for reaping in self.reapings if not reaping.complete]

    @property
    def sound(self) -> bool:
        """Whether everybody dead was recovered, with all they held."""
        return not self.broken

    @property
    def counts(self) -> list[int]:
        """Every number of attached limiters, ascending."""
        return sorted({cell.attached for cell in self.cells})

    @property
    def deaths(self) -> list[int]:
        """Every number of deaths, ascending."""
        return sorted({reaping.deaths for reaping in self.reapings})

    def cell(self, name: str, attached: int) -> Attached:
        """One subject with so many attached."""
        return next(cell for cell in self.cells if (cell.subject.name, cell.attached) == (name, attached))

    def reaping(self, name: str, deaths: int) -> Reaping:
        """One subject after so many deaths."""
        return next(r for r in self.reapings if (r.subject.name, r.deaths) == (name, deaths))

    def ratios(self) -> list[Ratio]:
        """Every goal beside what came out, of the first backend that works here."""
        strict, approximate = self.modes[:2]
        base = APPROXIMATE_BASE if APPROXIMATE_BASE in self.counts else min(self.counts)
        return [self._ratio(strict, min(self.counts), STRICT_GOAL), self._ratio(approximate, base, APPROXIMATE_GOAL)]

    def _ratio(self, mode: Hardcap, base: int, allowed: float) -> Ratio:
        most = max(self.counts)
        own, other = (self.cell(mode.name, attached).pairs for attached in (most, base))
        return Ratio(f"{mode.name}, {most} attached / {base}", own, other, allowed)

    def as_json(self) -> dict[str, object]:
        """All of it; the unit of a figure is the end of its name."""
        return {
            "machine": self.machine,
            "attached": [_attached(cell) for cell in self.cells],
            "reap": [_reaping(reaping) for reaping in self.reapings],
            "segment_bytes": {str(processes): size for processes, size in self.segments.items()},
            "backend": self.modes[0].backend,
            "goals": [ratio.as_json() for ratio in self.ratios()],
            "sound": self.sound,
        }


def _attached(cell: Attached) -> dict[str, object]:
    return {
        "name": cell.subject.name,
        "attached": cell.attached,
        "pair_ns": median(cell.pairs.pair_ns),
        "least_pair_ns": min(cell.pairs.pair_ns),
        "attach_ms": cell.attach.wall_ms,
        "attach_cpu_ms": cell.attach.cpu_ms,
        "segment_bytes": cell.attach.segment_bytes,
    }


def _reaping(reaping: Reaping) -> dict[str, object]:
    return {
        "name": reaping.subject.name,
        "deaths": reaping.deaths,
        "reap_ms": reaping.wall_ms,
        "reap_cpu_ms": reaping.cpu_ms,
        "recovered": [reaped.recovered for reaped in reaping.reaps],
        "left": [reaped.left for reaped in reaping.reaps],
    }
