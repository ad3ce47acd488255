"""The subjects compared: hardcap in each mode, and what people use without it.

A subject is shared once for a number of processes; what that gives travels to each of them, which attaches to it.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import Array, c_longlong
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.synchronize import BoundedSemaphore
from typing import Final, NamedTuple, Protocol

import hardcap

COUNTERS_PER_SLOT: Final = 8  # 64 bytes: a cache line for each process
BACKENDS: Final = ("atomics", "native")

Context = SpawnContext | ForkServerContext


class Gate(NamedTuple):
    """What one process calls: one unit in, one unit out, and goodbye."""

    reserve: Callable[[], bool]
    release: Callable[[], object]
    close: Callable[[], object]


Attach = Callable[[int], Gate]


class Subject(Protocol):
    """One way to keep several processes together below a limit."""

    @property
    def name(self) -> str: ...

    def bound(self, limit: int, processes: int) -> int | None:
        """The most holders it promises, None where it promises nothing."""

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        """What each of ``processes`` processes calls with its index, to attach."""


@dataclass(frozen=True)
class NoAdmission:
    """Lets everybody in: the cost of the loop itself, and the control that the witness must catch."""

    name: str = "none"

    def bound(self, limit: int, processes: int) -> int | None:
        return None

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return _attach_nothing


@dataclass(frozen=True)
class Semaphore:
    """``multiprocessing.BoundedSemaphore``, asked without waiting. A unit is lost for ever when its holder dies."""

    name: str = "BoundedSemaphore"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_semaphore, context.BoundedSemaphore(limit))


@dataclass(frozen=True)
class RawArraySlots:
    """One counter a process in a ``RawArray``, summed in Python. A slot keeps its value when its process dies."""

    name: str = "RawArray slots"

    def bound(self, limit: int, processes: int) -> int | None:
        return None

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        counters = context.RawArray("q", processes * COUNTERS_PER_SLOT)
        return partial(_attach_slots, counters, processes, limit)


@dataclass(frozen=True)
class Hardcap:
    """hardcap itself, in one mode on one backend, in its own segment for each number of processes."""

    mode: str
    backend: str
    directory: str

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.backend}"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit if self.mode == "strict" else limit + processes - 1

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(self._attach, f"bench-{self.mode}-{self.backend}-{processes}", limit)

    def open(self, name: str, limit: int) -> hardcap.Limiter:
        """A limiter on the segment ``name``, built if it is not there."""
        return hardcap.open(name, limit=limit, mode=self.mode, backend=self.backend, directory=self.directory)

    def _attach(self, name: str, limit: int, _index: int) -> Gate:
        limiter = self.open(name, limit)
        return Gate(limiter.reserve, limiter.release, limiter.close)


class SlotStats:
    """Requests of all processes, each in a slot of its own that only it writes. Nothing is locked."""

    def __init__(self, counters: Array[c_longlong], processes: int, index: int) -> None:
        self._counters = counters
        self._own = index * COUNTERS_PER_SLOT
        self._slots = range(0, processes * COUNTERS_PER_SLOT, COUNTERS_PER_SLOT)

    def set_num_requests(self, count: int) -> None:
        """Publish how many requests this process has."""
        self._counters[self._own] = count

    def get_num_requests(self) -> int:
        """Requests of all processes, as read one slot after another."""
        return sum(self._counters[slot] for slot in self._slots)


class SlotAdmission:
    """Admission over the slots: read the sum, refuse what does not fit, count afterwards."""

    def __init__(self, stats: SlotStats, limit: int) -> None:
        self._stats = stats
        self._limit = limit
        self._requests = 0

    def reserve(self) -> bool:
        if self._stats.get_num_requests() + 1 > self._limit:
            return False
        self._requests += 1
        self._stats.set_num_requests(self._requests)
        return True

    def release(self) -> None:
        self._requests -= 1
        self._stats.set_num_requests(self._requests)


CONTROL: Final = NoAdmission()
ORIGINAL: Final = RawArraySlots()
BASELINES: Final[tuple[Subject, ...]] = (CONTROL, Semaphore(), ORIGINAL)


def hardcap_subjects(directory: str) -> tuple[Hardcap, ...]:
    """Both modes on every backend that works here. Their segments go to ``directory``."""
    candidates = [Hardcap(mode, backend, directory) for backend in BACKENDS for mode in hardcap.Mode]
    return tuple(subject for subject in candidates if _works(subject))


def _works(subject: Hardcap) -> bool:
    try:
        subject.open("bench-probe", limit=1).close()
    except hardcap.BackendUnavailable:
        return False
    return True


def _attach_nothing(_index: int) -> Gate:
    return Gate(_admit, nothing, nothing)


def _attach_semaphore(semaphore: BoundedSemaphore, _index: int) -> Gate:
    return Gate(partial(semaphore.acquire, False), semaphore.release, nothing)


def _attach_slots(counters: Array[c_longlong], processes: int, limit: int, index: int) -> Gate:
    admission = SlotAdmission(SlotStats(counters, processes, index), limit)
    return Gate(admission.reserve, admission.release, nothing)


def _admit() -> bool:
    return True


def nothing() -> None:
    """What a gate does that has nothing to close, or to give back."""
    return
