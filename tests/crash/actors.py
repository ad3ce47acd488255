"""Forked processes that stand beside the victim: each has a limiter of its own, and does what it is told."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from typing import Any, Final

import hardcap

_DIE_WITH_PARENT: Final = 1  # prctl(2)

Units = dict[str, int]


class Member:
    """One limiter, and what is held through it."""

    def __init__(self, open_limiter: Callable[[], hardcap.Limiter]) -> None:
        self._open_limiter = open_limiter
        self.limiter = open_limiter()
        self._held: list[Units] = []

    def slots(self) -> list[int]:
        """The slots of this process."""
        return [one.slot for one in self.limiter.snapshot().processes if one.pid == os.getpid()]

    def again(self) -> None:
        """Open a second limiter, another owner, and go on with that one; the first stays open, and is not used."""
        self.let_go()
        self._before, self.limiter = self.limiter, self._open_limiter()

    def hold(self, units: Mapping[str, int]) -> bool:
        """Reserve in one call."""
        if wanted := {name: n for name, n in units.items() if n}:
            if not self.limiter.reserve(**wanted):
                return False
            self._held.append(wanted)
        return True

    def fill(self) -> None:
        """Reserve one by one, of each resource, until refused."""
        for name in self.limiter.limits:
            while self.hold({name: 1}):
                pass

    def fill_for_a_moment(self) -> None:
        before = len(self._held)
        try:
            self.fill()
        finally:
            self.let_go(before)

    def held(self) -> Units:
        """What its calls of ``hold`` and ``fill`` have got: its own tally."""
        return {name: sum(units.get(name, 0) for units in self._held) for name in self.limiter.limits}

    def let_go(self, but: int = 0) -> None:
        """Release all that is held, but for what the first so many calls got."""
        while len(self._held) > but:
            self.limiter.release(**self._held.pop())

    def in_flight(self) -> Units:
        return {resource.name: resource.in_flight for resource in self.limiter.snapshot().resources}

    def reap(self) -> int:
        return self.limiter.reap()

    def set_limits(self, limits: Units) -> None:
        self.limiter.set_limit(**limits)


class Actor:
    """A process with a `Member`; it dies with the one that made it. What opening raised is raised here."""

    def __init__(self, open_limiter: Callable[[], hardcap.Limiter]) -> None:
        self._pipe, other = Pipe()
        self.pid = os.fork()
        if not self.pid:
            _serve(open_limiter, other)
        other.close()
        self.ask("held")  # it is attached

    def ask(self, method: str, *args: Any) -> Any:
        """What that method of its member gives; what it raised is raised here."""
        self._pipe.send((method, args))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """Without a word: by SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._pipe.close()


def _serve(open_limiter: Callable[[], hardcap.Limiter], pipe: Any) -> None:
    """In the child; it never returns."""
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        member: Member | Exception = _try(Member, open_limiter)
        while True:
            method, args = pipe.recv()
            pipe.send(member if isinstance(member, Exception) else _try(getattr(member, method), *args))
    finally:
        os._exit(0)


def _try(action: Callable[..., Any], *args: Any) -> Any:
    try:
        return action(*args)
    except Exception as error:
        return error
