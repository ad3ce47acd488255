"""Descriptors that no forked child keeps, and whose number somebody else may have by now.

They carry kernel locks, by which a process is known to live: a copy in a forked child would keep a dead parent alive.
So every descriptor opened here is closed in the child before any other code of the child runs.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

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
