"""Kill a process at one point of what it does after the other: at all of them, or at a seeded sample."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.crash.aftermath import WAYS, check_limit, check_recovery
from tests.crash.points import GoTo, Way
from tests.crash.stage import Stage, State
from tests.crash.tracer import Tracee
from tests.crash.victims import Rival


@dataclass
class Outcome:
    """What came of it. Every kill that is counted here was recovered from."""

    kills: int = 0
    pending: int = 0  # of them left a slot with a change that was announced and not confirmed
    held: int = 0  # of them left units held, and nothing pending

    def __iadd__(self, other: Outcome) -> Outcome:
        self.kills += other.kills
        self.pending += other.pending
        self.held += other.held
        return self


@dataclass(frozen=True)
class Play:
    """``start`` gives a process about to act. ``keeps`` portions are its own at any instant of that. A rival acts once,
    as soon as the process has announced a change."""

    what: str
    start: Callable[[], Tracee]
    way: Way
    keeps: int = 0
    rival: Rival | None = None


class Campaign:
    """Deaths in one play, on one stage."""

    def __init__(self, stage: Stage, play: Play) -> None:
        self._stage = stage
        self._play = play
        self._way = play.way if play.rival is None else Way(self._beside_rival)  # the rival acts in the middle of it
        self.outcome = Outcome()

    def survey(self) -> list[State]:
        """How the words look before each point, and at the end, where it is killed."""
        tracee = self._play.start()
        states = [self._stage.state() for _ in self._way.walk(tracee)]
        states.append(self._stage.state())
        self._bury(tracee, len(states) - 1)
        return states

    def run(self, numbers: Iterable[int]) -> None:
        """After a survey: kill at the points of these numbers; step by step where one was missed."""
        for number in numbers:
            any(self._kill(number, go_to) for go_to in self._way.attempts)

    def go_to(self, tracee: Tracee, number: int) -> bool:
        """Let it act up to the point of that number. Whether it came there."""
        return self._way.go_to(tracee, number)

    def _kill(self, number: int, go_to: GoTo) -> bool:
        tracee = self._play.start()
        reached = go_to(tracee, number)
        self._bury(tracee, number)
        return reached

    def count(self) -> None:
        """One more kill, with what it left."""
        pending, left = self._stage.pending(), self._stage.left()
        self.outcome += Outcome(1, pending, left and not pending)

    def _beside_rival(self, tracee: Tracee) -> Iterator[None]:
        rival = self._play.rival
        for _ in self._play.way.points(tracee):
            if rival is not None and self._stage.pending():
                rival(self._stage)
                rival = None
            yield

    def _bury(self, tracee: Tracee, number: int) -> None:
        with told(f"{self._play.what}: killed before point {number}"):
            with ExitStack() as stack:
                stack.callback(tracee.kill)
                check_limit(self._stage, self._play.keeps)
            self.count()
            check_limit(self._stage)
            check_recovery(self._stage, WAYS[number % len(WAYS)])


def firsts(states: Iterable[State]) -> dict[State, int]:
    """The number of the first point at which the words look like that."""
    found: dict[State, int] = {}
    for number, state in enumerate(states):
        found.setdefault(state, number)
    return found


def chosen(states: list[State], size: int | None, seed: int) -> Iterable[int]:
    """Numbers of points: all; or each at which the words look new, and ``size`` by chance."""
    if size is None:
        return range(len(states))
    by_chance = random.Random(seed).sample(range(len(states)), min(size, len(states)))
    return sorted({*firsts(states).values(), *by_chance})


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say where it went wrong."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
