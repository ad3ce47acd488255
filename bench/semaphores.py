"""A named POSIX semaphore, asked without waiting: what a holder has is lost for ever when it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import posix_ipc


@contextmanager
def named_semaphore(units: int) -> Iterator[str]:
    """The name of a new one, which is gone in the end."""
    semaphore = posix_ipc.Semaphore(None, posix_ipc.O_CREX, initial_value=units)
    semaphore.close()
    try:
        yield semaphore.name
    finally:
        posix_ipc.unlink_semaphore(semaphore.name)


class SemaphoreGate:
    """One process's way in and out."""

    def __init__(self, name: str) -> None:
        self._semaphore = posix_ipc.Semaphore(name)

    def reserve(self) -> bool:
        """Whether there was a unit left."""
        try:
            self._semaphore.acquire(0)
        except posix_ipc.BusyError:
            return False
        return True

    def release(self) -> None:
        """Give one back."""
        self._semaphore.release()
