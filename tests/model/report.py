"""All scenarios in one table, how one is explored, and how a fault is told."""

from __future__ import annotations

from typing import Protocol

from tests.model import opening, scenarios
from tests.model.product import Edit
from tests.model.search import Model, Outcome, Schedule, Search, replay


class Scenario(Protocol):
    """Something to explore: on the product as it is, or with lines of it replaced."""

    @property
    def bound(self) -> int | None:
        """What approximate mode may have in flight, and must reach."""

    def model(self, edits: tuple[Edit, ...] = (), /) -> Model: ...


ALL: dict[str, Scenario] = {**scenarios.ALL, **opening.OPENING}
QUICK: dict[str, Scenario] = {**scenarios.QUICK, **opening.OPENING}


def search(scenario: Scenario, edits: tuple[Edit, ...] = ()) -> tuple[Outcome, int]:
    """The outcome, and the most that was in flight at once in approximate mode."""
    model = scenario.model(edits)
    return Search(model).run(), model.peak


def play(scenario: Scenario, schedule: Schedule, edits: tuple[Edit, ...] = ()) -> list[str]:
    return replay(scenario.model(edits), schedule)


def tell(title: str, scenario: Scenario, outcome: Outcome, edits: tuple[Edit, ...] = ()) -> str:
    """A fault, the shortest schedule to it, and how to play that again."""
    lines = play(scenario, outcome.schedule, edits)
    again = f"python -m tests.model {title!r} --replay {write_schedule(outcome.schedule)}"
    return "\n".join([f"{title}: {outcome.fault}", *(f"    {line}" for line in lines), again])


def write_schedule(schedule: Schedule) -> str:
    """``0.0.x1``: actor 0 goes on twice, then actor 1 dies."""
    return ".".join(f"{'x' * (move % 2)}{move // 2}" for move in schedule)


def read_schedule(text: str) -> Schedule:
    return tuple(2 * int(move.lstrip("x")) + move.startswith("x") for move in text.split(".") if move)
