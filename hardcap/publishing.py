"""How a new segment gets its name: built without one, complete and attended before anybody can see it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os

from hardcap import descriptors, layout, locks
from hardcap.descriptors import Descriptor

_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def publish(
    descriptor: int, name: str, image: bytes, permissions: int, *, replace: bool
) -> tuple[Descriptor, Descriptor, mmap.mmap]:
    """Put a complete segment under ``name``; with ``replace`` in the place of the one that stands there.

    Returns the descriptor of its locks, another one for the locks of sweeps, and its memory.

    ``descriptor`` is the directory's, whose lock is held. Nobody can see half a segment, and whoever sees it finds it
    attended. Raises ``OSError``; what was built is gone then.
    """
    file, temporary = _nameless(descriptor, name)
    lock = sweeper = -1
    try:
        os.fchmod(file, permissions)
        os.posix_fallocate(file, 0, len(image))  # a full file system is an error now, not a bus error later
        os.pwrite(file, image, 0)
        lock = descriptors.reopen(file)
        locks.take(lock, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK)
        sweeper = descriptors.reopen(file)
        memory = mmap.mmap(file, len(image))
        if replace:  # it was vetted; what came to a free name meanwhile was not, and makes the link fail
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
        _link(descriptor, file, temporary, name)
    except BaseException:
        descriptors.close(lock)
        descriptors.close(sweeper)
        raise
    finally:
        descriptors.close(file)
        remove_debris(descriptor, name)
    return lock, sweeper, memory


def _nameless(descriptor: int, name: str) -> tuple[Descriptor, str | None]:
    """A new file without a name, or with a temporary one where the file system has no such files."""
    try:
        return descriptors.open_description(".", os.O_TMPFILE | os.O_RDWR, dir_fd=descriptor), None
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
    temporary = _temporary(name)
    return descriptors.open_description(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, dir_fd=descriptor), temporary


def _link(descriptor: int, file: int, temporary: str | None, name: str) -> None:
    """Give the file its name; fails if the name exists."""
    if temporary is None:
        os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=descriptor, follow_symlinks=True)
    else:
        os.link(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)


def _temporary(name: str) -> str:
    return f".hardcap-building-{name}"


def remove_debris(descriptor: int, name: str) -> None:
    """The temporary name is only ever used under the directory's lock: what is found there later is debris."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_temporary(name), dir_fd=descriptor)
