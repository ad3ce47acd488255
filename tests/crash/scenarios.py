"""What is killed in the middle of what: one death, or two, the second while the first is being recovered from."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import hardcap
from hardcap import extension
from hardcap.config import Mode
from tests.crash import points
from tests.crash.campaign import Campaign, Outcome, Play, chosen, firsts
from tests.crash.points import Points, Way
from tests.crash.stage import PORTIONS, Settings, Stage, State, staged
from tests.crash.tracer import Tracee
from tests.crash.victims import HOT, OPERATIONS, SLOW, Action, Operation, attached, victim

core: Any = extension.native  # which there is, where anything is stepped through

POINTS: Final[dict[str, Points]] = {
    "instruction": lambda tracee: points.instructions(tracee, core.__file__),
    "system call": points.system_calls,
    "access": points.accesses,
}
OWN: Final = {"native": "instruction", "atomics": "access"}  # how each backend comes to the words


def way(kind: str) -> Way:
    """A way on which nobody has been yet. Only an instruction is told by its address."""
    return Way(POINTS[kind], direct=kind == "instruction")


@dataclass(frozen=True)
class Scenario:
    """``run`` kills at all points, or at a sample: ``size`` chosen by chance, and all at which the words look new."""

    operation: str
    points: str
    mode: str
    resources: int
    backend: str

    def run(self, directory: str, name: str, size: int | None = None, seed: int = 1) -> Outcome:
        with staged(Settings(directory, name, self.mode, self.resources, self.backend)) as stage:
            return self._run(stage, size, seed)

    def _run(self, stage: Stage, size: int | None, seed: int) -> Outcome:
        raise NotImplementedError

    def _what(self, action: str) -> str:
        return f"{action} by {self.points}, {self.mode}, {self.resources} resources, {self.backend}"


class OneDeath(Scenario):
    """In the middle of an operation."""

    def _run(self, stage: Stage, size: int | None, seed: int) -> Outcome:
        campaign = self.campaign(stage)
        campaign.run(chosen(campaign.survey(), size, seed))
        return campaign.outcome

    def campaign(self, stage: Stage) -> Campaign:
        operation = OPERATIONS[self.operation]
        return Campaign(
            stage,
            Play(
                self._what(self.operation),
                lambda: victim(stage.settings, operation),
                way(self.points),
                operation.keeps,
                operation.rival,
            ),
        )


RECOVERIES: Final[dict[str, Callable[[hardcap.Limiter, Settings], Action]]] = {
    "reap": lambda limiter, _settings: limiter.reap,
    "a refusal": lambda limiter, settings: lambda: limiter.reserve(**settings.portions(PORTIONS - 1)),
}


@dataclass(frozen=True)
class TwoDeaths(Scenario):
    """``operation`` is cut in half, in every way that leaves something; then who recovers from that is killed too."""

    recovery: str

    def _run(self, stage: Stage, size: int | None, seed: int) -> Outcome:
        own = OneDeath(self.operation, OWN[self.backend], self.mode, self.resources, self.backend).campaign(stage)
        outcome = Outcome()
        for number in self._chosen(_leaving(own.survey()), size, seed):
            campaign = self._second(stage, own, number)
            campaign.run(chosen(campaign.survey(), size, seed + number))
            outcome += campaign.outcome
        outcome += own.outcome
        return outcome

    def _chosen(self, leaving: list[int], size: int | None, seed: int) -> list[int]:
        """All; or the first, at which nothing is pending yet, and others by chance."""
        first, *others = leaving
        return leaving if size is None else [first, *random.Random(seed).sample(others, min(size, len(others)))]

    def _second(self, stage: Stage, first: Campaign, number: int) -> Campaign:
        operation = OPERATIONS[self.operation]

        def start() -> Tracee:
            recoverer = attached(stage.settings, Operation(RECOVERIES[self.recovery], before=0))
            owner = victim(stage.settings, operation)
            assert first.go_to(owner, number), "the first to die took another turn than the one surveyed"
            owner.kill()
            first.count()
            stage.let_sweeps_in()
            return recoverer

        what = f"{self.recovery} after the death before point {number} of {self.operation}"
        return Campaign(stage, Play(self._what(what), start, way(self.points)))


def _leaving(states: list[State]) -> list[int]:
    """Points that are the first to leave something new."""
    return [number for state, number in firsts(states).items() if any(any(resource[1:]) for resource in state)]


def one_death(backend: str, mode: str, resources: int) -> list[Scenario]:
    """All of them, for one kind of segment."""
    hot = [name for name, operation in HOT.items() if mode == Mode.strict or operation.rival is None]
    pairs = [(name, OWN[backend]) for name in (*hot, *SLOW)] + [(name, "system call") for name in SLOW]
    return [OneDeath(name, kind, mode, resources, backend) for name, kind in pairs]


def two_deaths(backend: str, mode: str, resources: int) -> list[Scenario]:
    """All of them, for one kind of segment. A refusal sweeps as reaping does: its steps are told by system calls."""
    return [
        TwoDeaths(operation, kind, mode, resources, backend, recovery)
        for operation in ("reserve", "release")
        for kind, recovery in ((OWN[backend], "reap"), ("system call", "reap"), ("system call", "a refusal"))
    ]
