"""What else keeps processes of one host together below a limit, each called as its users call it.

A pair is measured where there is room for everybody, so the calls are those that would wait: they cost least. What
``reserve`` returns is False where it refuses; a semaphore that waits returns, whatever it returns, when it has a unit.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import BoundedSemaphore
from pathlib import Path
from typing import Final

import posix_ipc
import sysv_ipc
from filelock import FileLock, Timeout
from portalocker.utils import NamedBoundedSemaphore

from bench.baselines import Attach, Context, Gate, Semaphore, nothing
from bench.semaphores import named_semaphore

LIMIT: Final = 64  # room for a unit of each process

_numbers: Final = itertools.count()


@dataclass(frozen=True)
class EmptyMethod:
    """Two calls of a method in C that does nothing: what any admission written in C costs at least.

    ``deque.rotate`` takes its arguments as an array (``METH_FASTCALL``, as few methods do that can be called without
    any), and on an empty deque it returns None after one comparison.
    """

    name: str = "empty C method"

    def bound(self, limit: int, processes: int) -> int | None:
        return None

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return _attach_empty


@dataclass(frozen=True)
class WaitingSemaphore(Semaphore):
    """``multiprocessing.BoundedSemaphore``, its own methods."""

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_semaphore, context.BoundedSemaphore(limit))


@dataclass(frozen=True)
class ValueCounter:
    """``multiprocessing.Value``: a counter, looked at and changed under its lock."""

    name: str = "Value and its lock"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_value, context.Value("q", 0), limit)


@dataclass(frozen=True)
class ValueInside(ValueCounter):
    """The same, and the process with index 0 goes no further than into the lock."""

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_inside, context.Value("q", 0), limit)


@dataclass(frozen=True)
class PosixSemaphore:
    """``posix_ipc.Semaphore``. ``leave`` removes what was shared."""

    leave: ExitStack
    name: str = "posix_ipc"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_posix, self.leave.enter_context(named_semaphore(limit)))


@dataclass(frozen=True)
class UndoneSemaphore:
    """``sysv_ipc.Semaphore`` with ``SEM_UNDO``: the kernel undoes what a process did when that ends."""

    leave: ExitStack
    name: str = "sysv_ipc, SEM_UNDO"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        semaphore = sysv_ipc.Semaphore(None, sysv_ipc.IPC_CREX, initial_value=limit)
        self.leave.callback(semaphore.remove)
        return partial(_attach_sysv, semaphore.key)


@dataclass(frozen=True)
class NamedSemaphore:
    """``portalocker.NamedBoundedSemaphore``: as many lock files as units, tried one after the other."""

    directory: str
    name: str = "portalocker"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_named, self.directory, f"portalocker-{next(_numbers)}", limit)


@dataclass(frozen=True)
class LockFiles:
    """``filelock.FileLock``: as many lock files as units, tried from any one on.

    The other way, one lock around a counter in a file, loses what a killed process has counted.
    """

    directory: str
    name: str = "filelock"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach_files, Path(self.directory, f"filelock-{next(_numbers)}"), limit)


class AnyFile:
    """Holds a unit by each lock file it has locked."""

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(exist_ok=True)
        self._locks = [FileLock(directory / str(number), timeout=0, thread_local=False) for number in range(limit)]
        self._held: list[FileLock] = []

    def reserve(self) -> bool:
        first = random.randrange(len(self._locks))
        return any(self._take(lock) for lock in self._locks[first:] + self._locks[:first])

    def _take(self, lock: FileLock) -> bool:
        if lock.is_locked:
            return False
        try:
            lock.acquire()
        except Timeout:
            return False
        self._held.append(lock)
        return True

    def release(self) -> None:
        self._held.pop().release()

    def close(self) -> None:
        while self._held:
            self.release()


def _attach_empty(_index: int) -> Gate:
    empty = deque[None]().rotate
    return Gate(empty, empty, empty)  # type: ignore[arg-type]


def _attach_semaphore(semaphore: BoundedSemaphore, _index: int) -> Gate:
    return Gate(semaphore.acquire, semaphore.release, nothing)


def _attach_value(counter: Synchronized[int], limit: int, _index: int) -> Gate:
    def reserve() -> bool:
        with counter.get_lock():
            if counter.value >= limit:
                return False
            counter.value += 1
            return True

    def release() -> None:
        with counter.get_lock():
            counter.value -= 1

    return Gate(reserve, release, nothing)


def _attach_inside(counter: Synchronized[int], limit: int, index: int) -> Gate:
    lock = counter.get_lock()
    return _attach_value(counter, limit, index) if index else Gate(lock.acquire, lock.release, nothing)


def _attach_posix(name: str, _index: int) -> Gate:
    semaphore = posix_ipc.Semaphore(name)
    return Gate(semaphore.acquire, semaphore.release, semaphore.close)


def _attach_sysv(key: int, _index: int) -> Gate:
    semaphore = sysv_ipc.Semaphore(key)
    semaphore.undo = True
    return Gate(semaphore.acquire, semaphore.release, nothing)


def _attach_named(directory: str, name: str, limit: int, _index: int) -> Gate:
    semaphore = NamedBoundedSemaphore(limit, name, directory=directory, timeout=0, fail_when_locked=False)

    def reserve() -> bool:
        return semaphore.acquire() is not None

    return Gate(reserve, semaphore.release, semaphore.release)


def _attach_files(directory: Path, limit: int, _index: int) -> Gate:
    files = AnyFile(directory, limit)
    return Gate(files.reserve, files.release, files.close)
