"""Threads that wait for room, and when they do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import hardcap
from hardcap.waiting import Waiter, queue_of
from tests.support.processes import DEADLINE, eventually

LONG = DEADLINE  # seconds to wait for what comes sooner


def standing(limiter: hardcap.Limiter) -> list[Waiter]:
    """Those of this process who wait."""
    return queue_of(limiter._connection)._waiters.copy()


def in_line(limiter: hardcap.Limiter) -> int:
    """How many they are."""
    return len(standing(limiter))


def until_in_line(limiter: hardcap.Limiter, count: int) -> None:
    eventually(lambda: in_line(limiter) == count, f"{count} wait")


class Line:
    """Threads that wait, each behind those that came before."""

    def __init__(self, limiter: hardcap.Limiter, pool: ThreadPoolExecutor) -> None:
        self._limiter = limiter
        self._pool = pool
        self.arrived: list[Any] = []  # in the order they got in

    def join(self, who: Any = None, *amounts: int, **asked: Any) -> Future[hardcap.Permit]:
        """One more; back when it waits, or has waited: meanwhile others may have left."""
        before = standing(self._limiter)
        future = self._pool.submit(self._wait, who, *amounts, **{"timeout": LONG, **asked})
        eventually(lambda: future.done() or any(waiter not in before for waiter in standing(self._limiter)), "it waits")
        return future

    def _wait(self, who: Any, *amounts: int, **asked: Any) -> hardcap.Permit:
        permit = self._limiter.admit(*amounts, **asked)
        self.arrived.append(who)
        return permit


@contextlib.contextmanager
def line(limiter: hardcap.Limiter) -> Iterator[Line]:
    with ThreadPoolExecutor(32) as pool:
        yield Line(limiter, pool)


def failed(future: Future[hardcap.Permit]) -> BaseException | None:
    """What its wait ended with, None: a permit."""
    return future.exception(DEADLINE)
