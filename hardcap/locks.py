"""Kernel locks on bytes of a file, and the descriptors that carry them.

An open-file-description lock (fcntl(2), ``F_OFD_SETLK``) belongs to an open file description: it is gone once the
last descriptor of it is closed, whatever the manner in which the process went. So it proves death, and a copy of the
descriptor in a forked child would keep a dead parent alive: every descriptor opened here is closed in the child
before any other code of the child runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator
from errno import EACCES, EAGAIN

from hardcap.extension import native

_Identity = tuple[int, int]


class Descriptor(int):
    """The number of a descriptor opened here. Two of one number are two: the first was closed by other code."""

    file: _Identity


_descriptors: dict[int, Descriptor] = {}
_guard = threading.RLock()
_hooks: list[Callable[[], None]] = []
generation: Callable[[], int] = native.forks if native is not None else os.getpid
"""Tells a forked child from its parent, also where no hook ran: as a child of C."""

_known = generation()


def identity(descriptor: int) -> _Identity:
    """Device and inode of an open file."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def open_description(path: str, flags: int, *, dir_fd: int | None = None) -> Descriptor:
    """A new open file description that no forked child keeps. Raises ``OSError``."""
    notice_fork()
    with _guard:  # no fork between the opening and the entry in the list
        descriptor = Descriptor(os.open(path, flags | os.O_CLOEXEC, 0o600, dir_fd=dir_fd))
        descriptor.file = identity(descriptor)
        _descriptors[descriptor] = descriptor
        if native is not None:  # a child forked from C runs no hook of ours
            native.guard(descriptor)
    return descriptor


def reopen(descriptor: int, flags: int = os.O_RDWR) -> Descriptor:
    """A second, independent description of the same inode, also when the file has no name (any more)."""
    return open_description(f"/proc/self/fd/{descriptor}", flags | os.O_NONBLOCK)


def is_ours(descriptor: int) -> bool:
    """Whether the descriptor still is the file it was opened as: somebody may have closed it behind our back."""
    notice_fork()
    known = _descriptors.get(descriptor)
    with contextlib.suppress(OSError):
        return known is not None and known is descriptor and known.file == identity(known)
    return False


def close(descriptor: int) -> None:
    """Close it, and drop its locks, unless it is not ours any more."""
    notice_fork()
    with _guard:
        if _descriptors.get(descriptor) is not descriptor:
            return
        ours = is_ours(descriptor)
        del _descriptors[descriptor]
        if ours:
            os.close(descriptor)
        if native is not None:  # after the closing: a child forked in between would keep it
            native.unguard(descriptor)


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
        return is_ours(self._descriptor)

    def close(self) -> None:
        """Close the description."""
        close(self._descriptor)


def in_forked_child(hook: Callable[[], None]) -> Callable[[], None]:
    """Have ``hook`` run in every forked child, once the locks of the parent's are gone."""
    _hooks.append(hook)
    return hook


def close_inherited() -> None:
    """In a forked child, before any other code of it runs: let go of every lock of the parent's."""
    global _guard, _known
    _known = generation()
    _guard = threading.RLock()  # whoever held it is not there
    for descriptor in list(_descriptors):
        close(descriptor)
    for hook in _hooks:
        hook()


def notice_fork() -> None:
    """In a child that was forked from C, where no hook ran: run them now, before it opens or closes anything."""
    if generation() != _known:
        close_inherited()


# The guard is looked up at each fork: a child makes it anew.
os.register_at_fork(
    before=lambda: _guard.acquire(),
    after_in_parent=lambda: _guard.release(),
    after_in_child=close_inherited,
)
