"""The directory that holds the segments, its lock, and the look at what stands under a name.

Nothing that is not ours is ever opened for reading or writing: an object is first opened as a mere path
(``O_PATH``), judged, and only then opened for use, by that very handle.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import Self

from hardcap import descriptors
from hardcap.config import Config
from hardcap.errors import SegmentError
from hardcap.settings import OWNER_ONLY

LOCK_PATIENCE = 10.0  # seconds
_HANDLE = os.O_PATH | os.O_NOFOLLOW
_GROUP = 0o060
_ANY_MODE = 0o777
REMOVED = "its file removed under its users"
UNTOUCHED = "it was left untouched; remove it or choose another name"


def default_directory() -> str:
    """Where this user's segments live unless a directory is given."""
    return f"/dev/shm/hardcap-{os.geteuid()}"


class Directory:
    """One directory of segments. ``explicit`` tells that somebody named it, and so may share it on purpose."""

    def __init__(self, path: str | os.PathLike[str] | None, *, permissions: int = OWNER_ONLY) -> None:
        self.path = os.path.abspath(default_directory() if path is None else path)
        self.explicit = self.path != default_directory()
        self.permissions = permissions

    @classmethod
    def of(cls, config: Config) -> Self:
        """For who opens a segment, as the configuration says."""
        return cls(config.directory, permissions=config.permissions or OWNER_ONLY)

    @classmethod
    def of_operator(cls, path: str | os.PathLike[str] | None) -> Self:
        """For who does not open a segment: in a directory that somebody named, its permissions may be any."""
        return cls(path, permissions=OWNER_ONLY if path is None else _ANY_MODE)

    def file(self, name: str) -> str:
        """The path of the segment called ``name``."""
        return os.path.join(self.path, name)

    @contextlib.contextmanager
    def locked(self, *, create: bool = False) -> Iterator[int]:
        """Hold the directory's lock; gives its descriptor. Waits up to 10 s, then :class:`SegmentError`."""
        if create:
            self._make()
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            with self.opened() as descriptor:
                if self._lock(descriptor, deadline):  # else it was removed and made anew while we waited
                    yield descriptor
                    return

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """The directory's descriptor without its lock, to look at a segment: those are never half there."""
        descriptor = self._open()
        try:
            yield descriptor
        finally:
            descriptors.close(descriptor)

    def _make(self) -> None:
        if os.path.lexists(self.path):
            return
        if self.permissions != OWNER_ONLY:
            found = "no directory"
            remedy = "create it with the owner and the mode that those who share it need"
            raise SegmentError(self.path, found, f"a directory for segments of mode {self.permissions:04o}", remedy)
        try:
            os.mkdir(self.path, 0o700)
            os.chmod(self.path, 0o700)  # whatever the umask took away
        except FileExistsError:
            pass
        except OSError as error:
            raise failure(self.path, error, "to create the directory") from error

    def _open(self) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | (0 if self.explicit else os.O_NOFOLLOW)
        try:
            descriptor = descriptors.open_description(self.path, flags)
        except OSError as error:
            raise failure(self.path, error, "a directory of this user's") from error
        if not self.explicit:
            self._check_private(descriptor)
        return descriptor

    def _check_private(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return
        descriptors.close(descriptor)
        found = f"a directory of user {status.st_uid} with mode {stat.S_IMODE(status.st_mode):04o}"
        remedy = "remove it, or name another directory"
        raise SegmentError(self.path, found, f"one of user {os.geteuid()} with mode 0700", remedy)

    def _lock(self, descriptor: int, deadline: float) -> bool:
        pause = 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self._still_named(descriptor)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    found = f"its lock held by another process for {LOCK_PATIENCE:.0f} s"
                    remedy = "look for a stopped process that has it open (fuser, lsof)"
                    raise SegmentError(self.path, found, "it free within that time", remedy) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
            except OSError as error:
                raise failure(self.path, error, "a directory that can be locked") from error

    def _still_named(self, descriptor: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.path)
            return (status.st_dev, status.st_ino) == descriptors.identity(descriptor)
        raise SegmentError(self.path, "it removed while it was waited for", "a directory", "open again")

    def open_file(self, descriptor: int, name: str, flags: int) -> int | None:
        """Open what stands under ``name`` if it may be a segment of ours; None where nothing stands."""
        try:
            handle = descriptors.open_description(name, _HANDLE, dir_fd=descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(self.file(name), error, "a segment") from error
        try:
            self.vet(self.file(name), os.fstat(handle), os.fstat(descriptor))
            return descriptors.reopen(handle, flags)
        except OSError as error:
            raise failure(self.file(name), error, "a segment", os.fstat(handle)) from error
        finally:
            descriptors.close(handle)

    def vet(self, path: str, status: os.stat_result, directory: os.stat_result) -> None:
        """:class:`SegmentError` unless an object of that status, in that directory, may be a segment of ours."""
        if not stat.S_ISREG(status.st_mode):
            raise SegmentError(path, _kind(status.st_mode), "a regular file", UNTOUCHED)
        if status.st_nlink != 1:
            raise SegmentError(path, f"a file with {status.st_nlink} links", "exactly one", UNTOUCHED)
        if status.st_uid != os.geteuid() and not self._is_shared(status, directory):
            raise self._not_ours(path, status, directory)
        if stat.S_IMODE(status.st_mode) & ~self.permissions:
            remedy = f"open it with permissions=0o{stat.S_IMODE(status.st_mode):o} if it is shared on purpose"
            raise SegmentError(path, describe(status), f"mode {self.permissions:04o} or narrower", remedy)

    def _is_shared(self, status: os.stat_result, directory: os.stat_result) -> bool:
        """Whether somebody else's file is one of those that this directory was named for: its owner's, or its group's.

        Any of the group may have made it: who may write to the directory may replace what is in it anyhow.
        """
        if not self.explicit:
            return False
        for_group = self.permissions & _GROUP == _GROUP and directory.st_mode & 0o022 == stat.S_IWGRP
        return status.st_uid == directory.st_uid or (for_group and status.st_gid == directory.st_gid)

    def _not_ours(self, path: str, status: os.stat_result, directory: os.stat_result) -> SegmentError:
        expected, remedy = f"a file of user {os.geteuid()}", UNTOUCHED
        if self.explicit:
            expected += f", of user {directory.st_uid}, or shared in group {directory.st_gid}"
            remedy += (
                "; a group shares segments in a directory of that group of mode 2770, with permissions=0o660 in each"
            )
        return SegmentError(path, describe(status), expected, remedy)


def lost_name(path: str, descriptor: int) -> str:
    """What became of the name of an open file, in words; nothing while ``path`` leads to it, or nobody can tell.

    Nobody can from where the directory is not to be seen: as another user, or with another root.
    """
    found = _leads_elsewhere(path, descriptor)  # first, since a replaced file loses its link before its name
    return found if os.fstat(descriptor).st_nlink else REMOVED


def _leads_elsewhere(path: str, descriptor: int) -> str:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return "its file moved away under its users" if os.path.isdir(os.path.dirname(path)) else ""
    except OSError:
        return ""
    replaced = (status.st_dev, status.st_ino) != descriptors.identity(descriptor)
    return f"{_kind(status.st_mode)} in the place of its own" if replaced else ""


def describe(status: os.stat_result) -> str:
    """Owner and mode of a file, in words."""
    return f"a file of user {status.st_uid}, group {status.st_gid}, mode {stat.S_IMODE(status.st_mode):04o}"


def failure(path: str, error: OSError, expected: str, status: os.stat_result | None = None) -> SegmentError:
    """An operating system's refusal as a structured error that names the object, its owner and its mode."""
    found = f"{errno.errorcode.get(error.errno or 0, 'error')}: {os.strerror(error.errno or 0)}"
    other = _other_object(path, error)
    if other:
        found += f" on '{other}'"
    elif status is None:
        with contextlib.suppress(OSError):
            status = os.stat(path, follow_symlinks=False)
    if status is not None:
        found += f" on {_kind(status.st_mode)} of user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}"
    return SegmentError(path, found, expected, _REMEDIES.get(error.errno or 0, ""))


def _other_object(path: str, error: OSError) -> str:
    """What the system refused to touch or did not find, if that is not ``path``: debris of ours, or /proc/self/fd."""
    named = error.filename
    if error.errno not in (errno.ENOENT, errno.EPERM, errno.EISDIR) or not isinstance(named, str):
        return ""
    other = os.path.join(os.path.dirname(path), named)
    return "" if os.path.basename(other) in (os.path.basename(path), ".") else other


_REMEDIES = {
    errno.ENOSPC: "free space there or name another directory",
    errno.EDQUOT: "free space there or name another directory",
    errno.EACCES: "run as its owner, or share it on purpose with directory= and permissions=",
    errno.ENOENT: "create it first",
    errno.EISDIR: UNTOUCHED,
    errno.EPERM: "let its owner remove it, or share segments in a directory without the sticky bit (mode 2770)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFREG: "a file",
}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "an object of unknown kind")


def absent(path: str) -> SegmentError:
    """The error for a name under which nothing stands."""
    return SegmentError(path, "nothing", "a segment", "check the name and the directory")
