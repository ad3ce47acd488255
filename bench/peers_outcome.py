"""hardcap beside its peers: all figures of one run, the goals, and who survived."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench import alone
from bench.baselines import Hardcap
from bench.figures import Figures
from bench.machine import Machine
from bench.peer_subjects import EmptyMethod, UndoneSemaphore, WaitingSemaphore
from bench.ratios import Ratio
from bench.survival import LIMIT, Survival

EMPTY: Final = EmptyMethod.name
SEMAPHORE: Final = WaitingSemaphore.name

ALONE_GOALS: Final = {(3, 11): 0.75, (3, 12): 0.85}  # by version of Python
ALONE_GOAL: Final = 0.9  # of later ones
CONTENDING_GOAL: Final = 0.95


@dataclass(frozen=True)
class Peers:
    """``forms`` are of one process, ``figures`` of every number of them, by subject; ``modes`` the first two named."""

    machine: Machine
    modes: Sequence[Hardcap]
    forms: Mapping[str, Figures]
    figures: Sequence[Figures]
    survivals: Sequence[Survival]
    missing: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def broken(self) -> list[Survival]:
        """Where hardcap lost units."""
        names = {mode.name for mode in self.modes}
        return [survival for survival in self.survivals if survival.name in names and not survival.survived]

    @property
    def blind(self) -> list[Survival]:
        """A semaphore that lost nothing: then what is said of the others is worth nothing."""
        return [survival for survival in self.survivals if survival.name == SEMAPHORE and survival.survived]

    @property
    def sound(self) -> bool:
        """Whether hardcap survived every kill, before an eye that sees who does not."""
        return not self.broken and not self.blind

    @property
    def processes(self) -> list[int]:
        """Every number of processes, ascending."""
        return sorted({figure.processes for figure in self.figures})

    @property
    def names(self) -> list[str]:
        """Every subject that was measured, in order."""
        return list(dict.fromkeys(figure.subject.name for figure in self.figures))

    def figure(self, name: str, processes: int) -> Figures | None:
        """The figures of one subject with so many processes, if they were measured."""
        found = (f for f in self.figures if f.subject.name == name and f.processes == processes)
        return next(found, None)

    def ratios(self) -> list[Ratio]:
        """Every goal beside what came out, of the first backend that works here."""
        return [*self._alone(), *self._contending()]

    def _alone(self) -> list[Ratio]:
        forms, strict = self.forms, self.forms[self.modes[0].name]
        semaphore = ALONE_GOALS.get(sys.version_info[:2], ALONE_GOAL)
        by_attribute, empty, undone = forms[alone.BY_ATTRIBUTE], forms[EMPTY], forms[UndoneSemaphore.name]
        return [
            Ratio("strict / BoundedSemaphore, methods in locals", strict, forms[SEMAPHORE], semaphore),
            Ratio(
                "strict / BoundedSemaphore, by attribute", by_attribute, forms[alone.SEMAPHORE_BY_ATTRIBUTE], semaphore
            ),
            Ratio("strict / two calls of an empty C method", strict, empty, 1.25),
            Ratio("approximate, 4 attached / slots of 4", forms[alone.APPROXIMATE_OF_4], forms[alone.SLOTS_OF_4], 0.07),
            Ratio("strict / sysv_ipc with SEM_UNDO", strict, undone, 0.04),
            Ratio("with admit(): pass / pair by attribute", forms[alone.ADMIT], by_attribute, 2.5),
        ]

    def _contending(self) -> list[Ratio]:
        ratios = []
        for processes in self.processes:
            own, other = self.figure(self.modes[0].name, processes), self.figure(SEMAPHORE, processes)
            if own and other and processes > 1:
                name = f"strict / BoundedSemaphore, {processes} processes"
                ratios.append(Ratio(name, own, other, CONTENDING_GOAL))
        return ratios

    def as_json(self) -> dict[str, object]:
        """The whole comparison; the unit of a figure is the end of its name."""
        return {
            "machine": self.machine,
            "subjects": [_row(figure.subject.name, figure) for figure in self.figures],
            "forms": [_row(name, figure) for name, figure in self.forms.items() if name not in self.names],
            "survival": [
                survival._asdict() | {"limit": LIMIT, "survived": survival.survived} for survival in self.survivals
            ],
            "missing": self.missing,
            "versions": self.versions,
            "backend": self.modes[0].backend,
            "goals": [ratio.as_json() for ratio in self.ratios()],
            "sound": self.sound,
        }


def _row(name: str, figure: Figures) -> dict[str, object]:
    return {
        "name": name,
        "processes": figure.processes,
        "pair_ns": median(figure.pair_ns),
        "least_pair_ns": min(figure.pair_ns),
        "pairs_per_second": median(figure.pairs_per_second),
        "rounds": len(figure.pair_ns),
    }
