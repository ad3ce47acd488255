"""Kernel locks on bytes of a file: by them a process is known to live.

An open-file-description lock (fcntl(2), ``F_OFD_SETLK``) belongs to an open file description: it is gone once the
last descriptor of it is closed, whatever the manner in which the process went. So it proves death.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from errno import EACCES, EAGAIN

from hardcap import descriptors
from hardcap.descriptors import Descriptor


def _flock_record(kind: int, byte: int, length: int = 1) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, length, 0)


def take(descriptor: int, byte: int, kind: int = fcntl.F_WRLCK) -> bool:
    """Lock one byte if it is free, without waiting."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock_record(kind, byte))
    except OSError as error:
        if error.errno in (EAGAIN, EACCES):
            return False
        raise
    return True


def drop(descriptor: int, byte: int) -> None:
    """Unlock one byte."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock_record(fcntl.F_UNLCK, byte))


def drop_all(descriptor: int) -> None:
    """Unlock whatever was locked by way of this descriptor."""
    to_the_end = 0
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock_record(fcntl.F_UNLCK, 0, to_the_end))


def is_taken(descriptor: int, byte: int) -> bool:
    """Whether another description holds a lock on that byte. Takes nothing; a read-only descriptor will do."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock_record(fcntl.F_WRLCK, byte))
    return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)


class Sweeper:
    """A description of its own for the locks of one process's sweeps, one sweep at a time.

    It stays open from one sweep to the next, so that a process can still sweep when it has changed its user, or has
    no descriptor left to open.
    """

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._turn = threading.RLock()
        self._under_way = False

    @contextlib.contextmanager
    def turn(self) -> Iterator[int | None]:
        """The descriptor; its locks are gone at the end. None to a sweep that interrupts another in the same thread:
        it would share that one's locks. None too where other code has closed the descriptor: a lock that is taken on
        another file proves nobody dead."""
        with self._turn:
            if self._under_way or not self.is_ours():
                yield None
                return
            self._under_way = True
            try:
                drop_all(self._descriptor)  # what a sweep that was interrupted may have left
                yield self._descriptor
            finally:
                self._under_way = False
                if self.is_ours():
                    drop_all(self._descriptor)

    def is_ours(self) -> bool:
        """Whether the descriptor still is the one that was opened for this."""
        return descriptors.is_ours(self._descriptor)

    def close(self) -> None:
        """Close the description."""
        descriptors.close(self._descriptor)
