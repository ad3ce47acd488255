"""What must hold right before a death, right after it, and once it has been recovered from.

Nothing of hardcap's own numbers is relied on: what is in flight is what the bystanders' own calls got.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.crash.actors import Actor, Units
from tests.crash.stage import BYSTANDERS, PORTIONS, Stage
from tests.crash.victims import lowered

WAYS: Final = ("a fresh process", "a refusal", "reap")


def check_limit(stage: Stage, keeps: int = 0) -> None:
    """The bystanders get no more than the limit, less what the victim has been promised, and see no more either."""
    stage.hold_sweeps_off()
    limits = stage.limits()
    assert limits.keys() == stage.settings.portion.keys()
    for name, limit in limits.items():
        assert limit in (stage.settings.portions(PORTIONS)[name], lowered(stage.settings)[name]), f"limits {limits}"
    for bystander in (stage.idle, stage.holder):
        bystander.ask("fill")
    held = Counter(stage.settings.portions(keeps))
    held.update(stage.idle.ask("held"))
    held.update(stage.holder.ask("held"))
    assert held <= Counter(limits), f"{dict(held)} held at one time, allowed: {limits}"
    for bystander in (stage.idle, stage.holder):
        seen = bystander.ask("in_flight")
        assert Counter(seen) <= Counter(limits), f"in flight: {seen}, allowed: {limits}"
    stage.idle.ask("let_go")
    stage.holder.ask("let_go", 1)


def check_recovery(stage: Stage, way: str) -> None:
    """The dead one is gone: every unit comes back without a refusal, none twice, and the slot serves again."""
    stage.let_sweeps_in()
    free = {name: limit - stage.held[name] for name, limit in stage.limits().items()}
    with _recovered(stage, way, free) as fresh:
        _check_takes_all(stage, fresh, free)
        _check_words(stage)
        fresh.ask("again")
        slots = fresh.ask("slots")
        assert slots == [BYSTANDERS, BYSTANDERS + 1], f"new owners got slots {slots}: one is lost"
        _check_takes_all(stage, fresh, free)
    _check_all_free(stage)
    stage.holder.ask("set_limits", stage.settings.portions(PORTIONS))


@contextmanager
def _recovered(stage: Stage, way: str, free: Units) -> Iterator[Actor]:
    """A process that came after the death, and recovered from it unless one of the bystanders had."""
    if way == "a refusal":
        assert stage.idle.ask("hold", free), f"refused, with {stage.state()}"
        stage.idle.ask("let_go")
    elif way == "reap":
        stage.holder.ask("reap")
    fresh = Actor(stage.settings.open)
    try:
        yield fresh
    finally:
        fresh.end()


def _check_takes_all(stage: Stage, member: Actor, free: Units) -> None:
    """All that is free is to be had in one call, and then nothing is."""
    assert member.ask("hold", free), f"refused {free}, with {stage.state()}"
    for name in free:
        assert not member.ask("hold", {name: 1}), f"more than the limit of {name}, with {stage.state()}"
    member.ask("let_go")


def _check_words(stage: Stage) -> None:
    assert not stage.left(), f"not clean: {stage.state()}"
    assert stage.counted() == stage.held, f"counted {stage.counted()}, held {stage.held}"


def _check_all_free(stage: Stage) -> None:
    stage.holder.ask("let_go")
    _check_takes_all(stage, stage.idle, stage.limits())
    assert stage.holder.ask("hold", stage.held)
