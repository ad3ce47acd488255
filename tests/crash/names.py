"""Deaths while a segment gets its name or loses it: never two caps, never half a segment, nobody stuck, no debris."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import hardcap
from tests.crash.actors import Actor, Units
from tests.crash.campaign import Outcome, chosen, told
from tests.crash.points import GoTo, Way
from tests.crash.scenarios import way
from tests.crash.stage import PORTIONS, Settings, State, warm_up
from tests.crash.tracer import Tracee


@dataclass(frozen=True)
class Change:
    """What the victim does to a name, and whether there is a segment, and users of it, before."""

    action: Callable[[Settings], object]
    there: bool = True
    used: bool = False


CHANGES: Final = {
    "create": Change(Settings.open, there=False),
    "replace": Change(Settings.open),
    "unlink": Change(lambda settings: hardcap.unlink(settings.name, settings.directory)),
    "unlink, forced": Change(lambda settings: hardcap.unlink(settings.name, settings.directory, force=True), used=True),
}


@dataclass(frozen=True)
class Naming:
    """``run`` kills at all points of a change, or at a sample. Each death has a name of its own."""

    operation: str
    points: str
    mode: str
    resources: int = 2
    backend: str = "native"

    def run(self, directory: str, name: str, size: int | None = None, seed: int = 1) -> Outcome:
        warm_up(Settings(directory, name, self.mode, self.resources, self.backend))
        outcome = Outcome()
        points = way(self.points)
        for number in chosen(self._survey(directory, f"{name}-survey", points), size, seed):
            any(self._kill(directory, f"{name}-{number}", number, go_to, outcome) for go_to in points.attempts)
        return outcome

    def _survey(self, directory: str, name: str, points: Way) -> list[State]:
        with self._staged(directory, name) as (tracee, _, _):
            return [_look(directory) for _ in points.walk(tracee)]

    def _kill(self, directory: str, name: str, number: int, go_to: GoTo, outcome: Outcome) -> bool:
        with (
            told(f"{self.operation} by {self.points}, {self.mode}: killed before point {number}"),
            self._staged(directory, name) as (tracee, users, settings),
        ):
            reached = go_to(tracee, number)
            tracee.kill()
            _check(settings, users)
        outcome += Outcome(1)
        return reached

    @contextmanager
    def _staged(self, directory: str, name: str) -> Iterator[tuple[Tracee, list[Actor], Settings]]:
        settings = Settings(directory, name, self.mode, self.resources, self.backend)
        change = CHANGES[self.operation]
        with ExitStack() as stack:
            if change.there and not change.used:
                Actor(settings.open).end()
            users = [_member(stack, settings) for _ in range(2)] if change.used else []
            for user in users[:1]:
                assert user.ask("hold", settings.portion)
            tracee = Tracee(lambda: partial(change.action, settings))
            stack.callback(tracee.kill)
            yield tracee, users, settings
        Path(directory, name).unlink(missing_ok=True)


def _member(stack: ExitStack, settings: Settings) -> Actor:
    actor = Actor(settings.open)
    stack.callback(actor.end)
    return actor


def _look(directory: str) -> State:
    """All that others can see."""
    return tuple((hash(entry.name), entry.inode(), hash(Path(entry).read_bytes())) for entry in os.scandir(directory))


def _check(settings: Settings, users: list[Actor]) -> None:
    """Whoever opens the name next has one cap with all others who do; users of before are in it, or are told."""
    with ExitStack() as stack:
        first, second = (_member(stack, settings) for _ in range(2))
        told_of_it = {_is_told(user) for user in users}
        assert len(told_of_it) <= 1, "one user is told that the segment is retired, another is not"
        held = 1 if told_of_it == {False} else 0
        _check_one_cap(first, second, settings.portions(PORTIONS - held))
        for user in users:
            user.ask("let_go")
        _check_one_cap(second, first, settings.portions(PORTIONS))
        entries = [entry for entry in os.listdir(settings.directory) if settings.name in entry]
        assert entries == [settings.name], f"debris: {entries}"


def _is_told(user: Actor) -> bool:
    """Whether its next refusal says that its segment is retired."""
    try:
        user.ask("fill_for_a_moment")
    except hardcap.SegmentRetired:
        return True
    return False


def _check_one_cap(one: Actor, other: Actor, free: Units) -> None:
    assert one.ask("hold", free), f"refused {free}"
    assert not any(other.ask("hold", {name: 1}) for name in free), "two caps under one name"
    one.ask("let_go")
