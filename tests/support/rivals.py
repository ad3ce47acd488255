"""Another process, between any two atomic accesses of one native call. For a core built with ``rival.h``.

Each scenario is a call and a rival. It is played once for every access that the call makes, with the rival acting
before that one, and says what must hold afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import hardcap
from hardcap import extension, layout
from tests.support.segments import mapped

NAME: Final = "contested"
SLOTS: Final = 4


class Interposed:
    """Acts once, before one atomic access of the native core."""

    def __init__(self) -> None:
        native: Any = extension.native
        self._hook = ctypes.c_void_p.in_dll(ctypes.CDLL(native.__file__), "rival")
        self._callback = ctypes.CFUNCTYPE(None)(self._before_access)
        self._left = 0
        self._act: Callable[[], None] = lambda: None
        self._failed: list[BaseException] = []

    def _before_access(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._hook.value = None
            try:
                self._act()
            except BaseException as error:
                self._failed.append(error)

    def during(self, call: Callable[[], Any], act: Callable[[], None], at: int) -> tuple[Any, bool]:
        """What ``call`` gives, with ``act`` before its access number ``at``; and whether it came to that one."""
        self._left, self._act = at, act
        self._hook.value = ctypes.cast(self._callback, ctypes.c_void_p).value
        try:
            answer = call()
        finally:
            acted = self._hook.value is None
            self._hook.value = None
        for error in self._failed:
            raise error
        return answer, acted


class Scene:
    """Two limiters on a fresh segment, of one unit each of two resources, and its words."""

    def __init__(self, directory: str, mode: str, backend: str, limit: int) -> None:
        limits = {"requests": limit, "tokens": limit}
        settings: dict[str, Any] = {"limits": limits, "mode": mode, "directory": directory}
        self.strict = mode == "strict"
        self.subject = hardcap.open(NAME, backend="native", max_processes=SLOTS, **settings)
        self.rival = hardcap.open(NAME, backend=backend, **settings)
        self.words: memoryview
        self.began_with_none = False

    def count(self) -> int:
        """Units of the first resource that are counted."""
        return self.subject.in_flight

    def check(self, limit: int) -> None:
        """What holds between any two steps of one process."""
        for index in (0, 1):
            held = sum(layout.low(self.words[layout.slot_word(slot, index)]) for slot in range(SLOTS))
            count = layout.low(self.words[layout.global_word(index)])
            assert not self.strict or held <= count <= limit, f"{held} held, {count} counted, limit {limit}"

    def check_quiet(self) -> None:
        """What holds once nobody is inside: all is told apart, and nothing is on its way."""
        for index in (0, 1):
            words = [self.words[layout.slot_word(slot, index)] for slot in range(SLOTS)]
            assert max(map(layout.high, words)) == 0, f"pending: {words}"
            assert not self.strict or layout.low(self.words[layout.global_word(index)]) == sum(words)


@contextlib.contextmanager
def scene(directory: str, mode: str, backend: str, limit: int) -> Iterator[Scene]:
    found = Scene(directory, mode, backend, limit)
    with mapped(Path(directory, NAME)) as words, found.subject, found.rival:
        found.words = words
        yield found
    hardcap.unlink(NAME, directory)


def last_unit(play: Scene, during: Any) -> None:
    """Two ask for one unit: one gets it."""
    won: list[bool] = []
    mine, acted = during(play.subject.reserve, lambda: won.append(play.rival.reserve()))
    assert mine + sum(won) == 1 or (not play.strict and mine) or not acted
    play.check(1)


def unit_comes_back(play: Scene, during: Any) -> None:
    """The unit that is missing is given back in the middle: whatever is answered is what is counted."""
    play.rival.reserve()
    mine, _ = during(play.subject.reserve, lambda: play.rival.release())
    assert (play.subject.held, play.count()) == (mine, mine + play.rival.held)


def room_to_be_left(play: Scene, during: Any) -> None:
    """Headroom is of the instant at which the units are counted."""
    play.subject.set_limit(2)

    def act() -> None:
        play.began_with_none = play.count() == 0
        assert play.rival.reserve()

    mine, _ = during(lambda: play.subject.reserve(headroom=1), act)
    assert not (mine and play.began_with_none and play.strict)


def limit_lowered(play: Scene, during: Any) -> None:
    """I2: none above a new limit once ``set_limit`` has returned."""

    def act() -> None:
        play.began_with_none = play.count() == 0
        play.rival.set_limit(0)

    mine, _ = during(play.subject.reserve, act)
    assert not (mine and play.began_with_none and play.strict)


def all_or_nothing(play: Scene, during: Any) -> None:
    """The second of two resources goes to the rival: then the first goes back."""
    won: list[bool] = []
    mine, _ = during(lambda: play.subject.reserve(1, tokens=1), lambda: won.append(play.rival.reserve(tokens=1)))
    amounts = [layout.low(play.words[layout.slot_word(0, index)]) for index in (0, 1)]
    assert amounts == [mine, mine]
    play.check(1)
    assert won != [True] or not mine or not play.strict


def given_back(play: Scene, during: Any) -> None:
    """A release in the middle of which somebody asks."""
    play.subject.reserve(1, tokens=1)

    def act() -> None:
        play.rival.reserve(1, tokens=1)
        play.check(1)

    during(lambda: play.subject.release(1, tokens=1), act)
    assert play.subject.held == 0


def adjusted(play: Scene, during: Any) -> None:
    """One resource down, the other up: a rival in the middle asks for what goes up."""
    with play.subject.admit() as permit:
        won: list[bool] = []

        def act() -> None:
            won.append(play.rival.reserve(tokens=1))
            play.check(1)

        mine, acted = during(lambda: permit.adjust(requests=0, tokens=1), act)
        assert permit.amounts == ({"tokens": 1} if mine else {"requests": 1})
        assert mine + sum(won) == 1 or (not play.strict and mine) or not acted
        play.check(1)
        play.check_quiet()


def cut_before_it_counted(play: Scene, during: Any) -> None:
    """A dead owner's pending unit that is in no count is settled, with a rival coming."""
    settle_beside(play, during, counted=0)


def cut_after_it_counted(play: Scene, during: Any) -> None:
    """The same, in the count already."""
    settle_beside(play, during, counted=int(play.strict))


def settle_beside(play: Scene, during: Any, counted: int) -> None:
    dead = SLOTS - 1
    play.words[layout.H_HIGH_WATER] = SLOTS
    play.words[layout.slot(dead) + layout.S_STATE] = layout.pack(layout.STATE_LIVE, 1)
    play.words[layout.slot_word(dead, 0)] = layout.pack(0, 1)
    play.words[layout.global_word(0)] += counted
    play.subject.set_limit(3)
    play.subject.reserve()

    def act() -> None:
        play.rival.reserve()
        play.check(3)

    during(play.subject.reap, act)
    play.check(3)
    play.subject.reap()
    assert play.count() == play.subject.held + play.rival.held


SCENARIOS: Final = (
    last_unit,
    unit_comes_back,
    room_to_be_left,
    limit_lowered,
    all_or_nothing,
    given_back,
    adjusted,
    cut_before_it_counted,
    cut_after_it_counted,
)


def explore(directory: str, mode: str, backend: str) -> dict[str, int]:
    """Play each scenario before each access. How many accesses there are."""
    interposed, accesses = Interposed(), {}
    for scenario in SCENARIOS:
        for at in itertools.count():
            met = False

            def during(call: Callable[[], Any], act: Callable[[], None], at: int = at) -> tuple[Any, bool]:
                nonlocal met
                answer, met = interposed.during(call, act, at)
                return answer, met

            with scene(directory, mode, backend, 1) as play:
                scenario(play, during)
                play.check_quiet()
            if not met:
                accesses[scenario.__name__] = at
                break
    return accesses
