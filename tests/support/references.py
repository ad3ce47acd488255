"""What a process keeps after many calls: blocks of Python's allocator, references to what the calls touch, memory."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import hardcap
from hardcap import extension
from tests.support.forms import FULL

MANY: Final = 1_000_000 if FULL else 100_000
SOME: Final = 20_000
FEW: Final = 2_000
BYTES: Final = 24  # a call, from which on it is a leak: less than one block of malloc's
NOISE: Final = 512 * 1024  # bytes that may come and go by themselves


class Subject:
    """A limiter of two resources, one that is full, one that is full and admits, and one that is closed."""

    def __init__(self, directory: str, mode: str) -> None:
        self._settings = {"directory": directory, "mode": mode, "backend": "native"}
        self.limiter = self.open("some", 9)
        self.full = self.open("full", 0)
        self.dry = self.open("dry", 0, enforce=False)
        self.closed = self.open("closed", 9)
        self.closed.close()

    def open(self, name: str, limit: int, **more: object) -> hardcap.Limiter:
        limits = {"requests": limit, "tokens": limit}
        return hardcap.open(name, limits=limits, **self._settings, **more)  # type: ignore[arg-type]

    def watched(self) -> dict[str, object]:
        """Objects to which a call may add a reference too many."""
        connection = self.limiter._connection
        admission = connection.admission
        constants = {"None": None, "True": True, "False": False, "()": (), "1": 1}
        types = {"permit type": type(_permit(self.limiter)), "core type": type(admission)}
        return {"limiter": self.limiter, "connection": connection, "admission": admission, **types, **constants}


def _permit(limiter: hardcap.Limiter) -> hardcap.Permit:
    with limiter.admit() as permit:
        return permit


def pair(subject: Subject) -> None:
    subject.limiter.reserve()
    subject.limiter.release()


def pair_by_name(subject: Subject) -> None:
    subject.limiter.reserve(1, tokens=2, headroom=1)
    subject.limiter.release(requests=1, tokens=2)


def pair_read_by_python(subject: Subject) -> None:
    subject.limiter.reserve(tokens=hardcap.layout.MAX_LIMIT - 2**31 + 3, headroom=_Small(1))
    subject.limiter.release(tokens=_Small(2))


class _Small(int):
    """An int that Python has to look at."""


def block(subject: Subject) -> None:
    with subject.limiter.admit(tokens=2):
        pass


def permit_looked_at(subject: Subject) -> None:
    permit = subject.limiter.admit(2)
    permit.amounts, permit.released, repr(permit), permit._admission, permit._wanted
    permit.release()
    permit.release()


def permit_adjusted(subject: Subject) -> None:
    with subject.limiter.admit(2, tokens=2) as permit:
        permit.adjust(3, tokens=0)
        permit.adjust(tokens=7)
        permit.adjust(2**31 - 1)
    permit.adjust(1)


def waited_in_vain(subject: Subject) -> None:
    with contextlib.suppress(hardcap.CapExceeded):
        subject.full.admit(timeout=1e-9)


def forced(subject: Subject) -> None:
    with contextlib.suppress(hardcap.CapExceeded):
        subject.dry.admit(1, tokens=1).release()
    subject.dry.reserve()
    subject.dry.release()


def permit_forgotten(subject: Subject) -> None:
    subject.limiter.admit(1, tokens=2)


def permit_dropped_by_an_error(subject: Subject) -> None:
    with contextlib.suppress(ZeroDivisionError):
        (subject.limiter.admit(), 1 / 0)


def refused(subject: Subject) -> None:
    subject.full.reserve(1, tokens=1)


def exceeded(subject: Subject) -> None:
    with contextlib.suppress(hardcap.CapExceeded):
        subject.full.admit()


def wrong(subject: Subject) -> None:
    calls: list[Callable[..., object]] = [subject.limiter.reserve, subject.limiter.release, subject.limiter.admit]
    for call in calls:
        for given in ({"tokens": 0}, {"tokens": None}, {"bytes": 1}, {"headroom": ()}):
            with contextlib.suppress(ValueError):
                call(**given)


def too_much(subject: Subject) -> None:
    with contextlib.suppress(hardcap.ReleaseError):
        subject.limiter.release(tokens=5)


def closed(subject: Subject) -> None:
    for call in (subject.closed.reserve, subject.closed.release, subject.closed.admit):
        with contextlib.suppress(hardcap.SegmentClosed):
            call()


def looked_at(subject: Subject) -> None:
    limiter = subject.limiter
    limiter.held, limiter.in_flight, limiter.limits, limiter.snapshot(), limiter.reap()


def opened(subject: Subject) -> None:
    with subject.open("another", 9) as limiter:
        limiter.reserve()


def words(subject: Subject) -> None:
    native: Any = extension.native
    made = native.Words(bytearray(80))
    made.store(1, 5), made.fetch_add(1, -1), made.compare_exchange(1, 4, 2**64 - 1), made.column(0, 5, 2)
    made.settle(0, 2, 3, 2, b"\0\0", 3), made.load(1)
    made.detach()
    wrong: list[Callable[[], object]] = [lambda: made.load(99), lambda: made.column(5, 5, 5), lambda: native.Words(b"")]
    for call in wrong:
        with contextlib.suppress(IndexError, BufferError, ValueError):
            call()
    made.close()


OPERATIONS: Final[dict[str, tuple[Callable[[Subject], None], int]]] = {
    "pair": (pair, MANY),
    "pair_by_name": (pair_by_name, MANY // 2),
    "pair_read_by_python": (pair_read_by_python, SOME),
    "block": (block, MANY // 4),
    "permit_looked_at": (permit_looked_at, SOME),
    "permit_adjusted": (permit_adjusted, SOME),
    "waited_in_vain": (waited_in_vain, FEW),
    "forced": (forced, SOME),
    "permit_forgotten": (permit_forgotten, SOME),
    "permit_dropped_by_an_error": (permit_dropped_by_an_error, SOME),
    "refused": (refused, SOME),
    "exceeded": (exceeded, SOME),
    "wrong": (wrong, FEW),
    "too_much": (too_much, SOME),
    "closed": (closed, SOME),
    "looked_at": (looked_at, FEW),
    "opened": (opened, FEW // 4),
    "words": (words, SOME),
}


def kept(operation: str, directory: str, mode: str) -> dict[str, float]:
    """What each call keeps, of whatever it keeps something of: empty where nothing leaks."""
    call, times = OPERATIONS[operation]
    warnings.simplefilter("ignore", ResourceWarning)
    subject = Subject(directory, mode)
    _repeat(call, subject, max(times // 4, 1000))
    watched = subject.watched()
    before = _counts(watched)
    _repeat(call, subject, times)
    after = _counts(watched)
    growth = {what: after[what] - before[what] for what in before}
    least = {"resident bytes": max(BYTES * times, NOISE)}
    return {what: grown / times for what, grown in growth.items() if grown >= least.get(what, times / 2)}


def _repeat(call: Callable[[Subject], None], subject: Subject, times: int) -> None:
    for _ in itertools.repeat(None, times):
        call(subject)
    gc.collect()


def _counts(watched: dict[str, object]) -> dict[str, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    references = {f"references to {what}": sys.getrefcount(watched[what]) for what in watched}
    return references | {"blocks": sys.getallocatedblocks(), "resident bytes": pages * os.sysconf("SC_PAGE_SIZE")}
