"""The subjects side by side: ratios, goals, and whether the witness found every promise kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from bench.attach import AttachCost
from bench.baselines import CONTROL, ORIGINAL, Subject
from bench.figures import Figures, percentiles
from bench.machine import Machine

RATIO_PROCESSES: Final = 4
RATIO_GOAL: Final = 2.5  # an approximate pair against the slots in Python
ATTACH_GOAL_MS: Final = 5.0
SEGMENT_GOAL_KIB: Final = 64.0


@dataclass(frozen=True)
class Goal:
    """A figure with the most it is meant to be. A missed goal is shown; it is no failure."""

    name: str
    observed: float
    allowed: float
    unit: str

    @property
    def met(self) -> bool:
        return self.observed <= self.allowed

    def as_json(self) -> dict[str, object]:
        """Figure, bound and verdict."""
        return asdict(self) | {"met": self.met}


@dataclass(frozen=True)
class Comparison:
    """All figures of one run on one machine."""

    machine: Machine
    figures: Sequence[Figures]
    attach: Sequence[AttachCost]

    @property
    def controls(self) -> list[Figures]:
        """The uncapped runs, which the witness must see above the limit."""
        return [figure for figure in self.figures if figure.subject == CONTROL]

    @property
    def broken(self) -> list[Figures]:
        """Where the witness saw more holders than promised."""
        return [figure for figure in self.figures if not figure.kept]

    @property
    def blind(self) -> list[Figures]:
        """Uncapped runs that the witness did not catch: what it says of the others is worth nothing."""
        return [figure for figure in self.controls if figure.peak <= figure.limit]

    @property
    def sound(self) -> bool:
        """Whether every promise was kept, before a witness that catches a broken one."""
        return not self.broken and not self.blind

    @property
    def ratio_processes(self) -> int:
        """The number of processes at which the ratios are compared with their goal."""
        counts = {figure.processes for figure in self.figures}
        return RATIO_PROCESSES if RATIO_PROCESSES in counts else max(counts)

    def ratio(self, figure: Figures) -> float:
        """A pair against the original's with as many processes."""
        return figure.ratio(self._figure(ORIGINAL, figure.processes))

    def ratios(self) -> dict[str, float]:
        """Each mode's pair against the original's, by name, at ``ratio_processes``."""
        modes = [cost.subject for cost in self.attach]
        return {mode.name: self.ratio(self._figure(mode, self.ratio_processes)) for mode in modes}

    @property
    def attach_ms(self) -> float:
        """The median attach of the slowest mode, in milliseconds."""
        return max(cost.wall_ms for cost in self.attach)

    @property
    def attach_cpu_ms(self) -> float:
        """The same of processor time."""
        return max(cost.cpu_ms for cost in self.attach)

    @property
    def segment_bytes(self) -> int:
        """The size of the largest default segment."""
        return max(cost.segment_bytes for cost in self.attach)

    def timer_ns(self) -> dict[str, float]:
        """What timing adds to each duration: the clock read twice with nothing in between, in nanoseconds."""
        merged: Counter[int] = Counter()
        for figure in self.figures:
            merged.update(figure.timer)
        return percentiles(merged)

    def goals(self) -> list[Goal]:
        """Every goal beside what came out."""
        against = f"pair / {ORIGINAL.name} pair, {self.ratio_processes} processes"
        return [
            Goal(f"{cost.subject.name} {against}", self.ratios()[cost.subject.name], RATIO_GOAL, "x")
            for cost in self.attach
            if cost.subject.mode == "approximate"
        ] + [
            Goal("attach, median", self.attach_ms, ATTACH_GOAL_MS, "ms"),
            Goal("default segment", self.segment_bytes / 1024, SEGMENT_GOAL_KIB, "KiB"),
        ]

    def as_json(self) -> dict[str, object]:
        """The whole comparison; the unit of a figure is the end of its name."""
        return {
            "machine": self.machine,
            "subjects": [self._row(figure) for figure in self.figures],
            "ratios": {"baseline": ORIGINAL.name, "processes": self.ratio_processes, **self.ratios()},
            "goals": [goal.as_json() for goal in self.goals()],
            "attach_ms": self.attach_ms,
            "attach_cpu_ms": self.attach_cpu_ms,
            "segment_bytes": self.segment_bytes,
            "timer_ns": self.timer_ns(),
            "sound": self.sound,
        }

    def _row(self, figure: Figures) -> dict[str, object]:
        return figure.as_json() | {"ratio": self.ratio(figure)}

    def _figure(self, subject: Subject, processes: int) -> Figures:
        return next(f for f in self.figures if f.subject == subject and f.processes == processes)
