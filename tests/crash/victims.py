"""What the victim does when it dies, and what it has been promised at any instant of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import hardcap
from hardcap import backend
from tests.crash.points import AnnouncedWords
from tests.crash.stage import PORTIONS, Settings, Stage
from tests.crash.tracer import ACCESS, Tracee

Action = Callable[[], object]
Rival = Callable[[Stage], object]


@dataclass(frozen=True)
class Operation:
    """``prepare`` gives the action on a limiter that holds ``before`` portions; ``keeps`` of them are the victim's
    at whatever instant of it. ``rival`` acts once, as soon as the victim has announced a change."""

    prepare: Callable[[hardcap.Limiter, Settings], Action]
    before: int = 1
    keeps: int = 1
    rival: Rival | None = None


def _reserve(limiter: hardcap.Limiter, settings: Settings) -> Action:
    return lambda: limiter.reserve(**settings.portion) if settings.resources > 1 else limiter.reserve()


def _release(limiter: hardcap.Limiter, settings: Settings) -> Action:
    return lambda: limiter.release(**settings.portion) if settings.resources > 1 else limiter.release()


def _admit(limiter: hardcap.Limiter, settings: Settings) -> Action:
    permits: list[hardcap.Permit] = []
    return lambda: permits.append(limiter.admit(**settings.portion))


def _release_permit(limiter: hardcap.Limiter, settings: Settings) -> Action:
    return limiter.admit(**settings.portion).release


def _adjust_up(limiter: hardcap.Limiter, settings: Settings) -> Action:
    permit = limiter.admit(**settings.portion)
    return lambda: permit.adjust(**settings.portions(2))


def _adjust_up_and_down(limiter: hardcap.Limiter, settings: Settings) -> Action:
    """The last resource down, any other up."""
    one, two = settings.portion, settings.portions(2)
    *_, last = one
    permit = limiter.admit(**{**one, last: two[last]})
    return lambda: permit.adjust(**{**two, last: one[last]})


def _reserve_too_much(limiter: hardcap.Limiter, settings: Settings) -> Action:
    """Refused by the last resource, once the others are taken."""
    *_, last = settings.portion
    wanted = {**settings.portion, last: settings.portions(PORTIONS)[last]}
    return lambda: limiter.reserve(**wanted)


def _lower_limits(limiter: hardcap.Limiter, settings: Settings) -> Action:
    return lambda: limiter.set_limit(**lowered(settings))


def lowered(settings: Settings) -> dict[str, int]:
    return settings.portions(PORTIONS - 1)


def _come_and_go(stage: Stage) -> None:
    """Now the count is what it was, and its version is not."""
    assert stage.idle.ask("hold", stage.settings.portion)
    stage.idle.ask("let_go")


HOT: Final = {
    "reserve": Operation(_reserve),
    "reserve, its swap lost": Operation(_reserve, rival=_come_and_go),
    "reserve, the last unit lost": Operation(_reserve, rival=lambda stage: stage.idle.ask("fill")),
    "reserve, refused": Operation(_reserve_too_much),
    "release": Operation(_release, before=2),
    "admit": Operation(_admit),
    "release of a permit": Operation(_release_permit),
    "adjust, up": Operation(_adjust_up, before=0),
    "adjust, up and down": Operation(_adjust_up_and_down, before=0),
}
SLOW: Final = {
    "open": Operation(lambda _limiter, settings: settings.open, before=0, keeps=0),  # see `opening`
    "close": Operation(lambda limiter, _settings: limiter.close, before=2, keeps=0),
    "reap": Operation(lambda limiter, _settings: limiter.reap),
    "set_limit": Operation(_lower_limits),
}
OPERATIONS: Final = HOT | SLOW


def victim(settings: Settings, operation: Operation) -> Tracee:
    """About to begin: attached, unless it is to open."""
    return opening(settings) if operation is SLOW["open"] else attached(settings, operation)


def opening(settings: Settings) -> Tracee:
    """About to open its first limiter."""

    def prepare() -> Action:
        announcing = _announce_accesses(settings)
        announcing.append(True)
        return partial(settings.open, settings.backend)

    return Tracee(prepare)


def attached(settings: Settings, operation: Operation) -> Tracee:
    """Attached, warmed up, and about to begin."""

    def prepare() -> Action:
        announcing = _announce_accesses(settings)
        limiter = settings.open(settings.backend)
        _warm_up(limiter, settings)
        for _ in range(operation.before):
            assert limiter.reserve(**settings.portion)
        action = operation.prepare(limiter, settings)
        announcing.append(True)
        return action

    return Tracee(prepare)


def _warm_up(limiter: hardcap.Limiter, settings: Settings) -> None:
    """Once through all that is bound when it is first called."""
    limiter.admit(**settings.portion).release()
    limiter.reap()


def _announce_accesses(settings: Settings) -> list[bool]:
    """The portable backend stops before each access from now on, once the list that is returned is not empty."""
    announcing: list[bool] = []
    portable = backend._ATOMICS

    def announce() -> None:
        if announcing:
            signal.raise_signal(ACCESS)

    def announced(mode: Any, memory: Any) -> Any:
        return AnnouncedWords(portable.words(mode, memory), announce)

    if settings.backend == portable.name:
        backend._ATOMICS = replace(portable, words=announced)
    return announcing
