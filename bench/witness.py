"""An independent count of what is in flight over several processes: exact, and blind to hardcap's own numbers.

Every process locks a stretch of one file, as many bytes long as it has requests inside. The kernel holds these locks,
so it alone is asked how many there are, and it drops them when a process dies in whatever manner. They are the
classic record locks, which belong to a process: a forked child has none, and a dying process loses them while its
descriptors are closed, before any lock that belongs to a description (as hardcap's do) goes. So nobody is counted
whose unit has already been recovered.

A request is counted and the sum is taken under one lock, so ``peak`` is the true simultaneous maximum.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_TURN = 0  # the byte whose lock makes a change and its count one step
_STRETCHES = 1 << 40  # stretch n begins n * _ROOM bytes further on
_ROOM = 1 << 20
_END = 1 << 62
_STATE = struct.Struct("<QQ")  # stretches given out, peak
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Witness:
    """Counts holders over all processes that name the same ``path``; the file is made by whoever comes first.

    Make one object a path and process: closing any descriptor of the file drops the process's locks on it.
    Threads may share it. After a fork the child counts for itself, from zero.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._start_afresh()

    def enter(self) -> int:
        """Count one more holder, and return the token that ``leave`` wants."""
        with self._turn():
            token = self._next_token
            self._next_token += 1
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._stretch + len(self._tokens))
            self._tokens.add(token)
            self._raise_peak()
        return token

    def leave(self, token: int) -> None:
        """Count one holder less. ``ValueError`` for a token that this process does not hold."""
        with self._turn():
            if token not in self._tokens:
                raise ValueError(f"token {token} is not held by process {os.getpid()}")
            self._tokens.remove(token)
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._stretch + len(self._tokens))

    @property
    def peak(self) -> int:
        """The most holders there ever were at one time."""
        with self._turn():
            return self._state()[1]

    @property
    def current(self) -> int:
        """Holders at this instant; those of dead processes no longer count."""
        return self.holders().total()

    def holders(self) -> Counter[int]:
        """Holders at this instant, by process id."""
        with self.held_still() as holders:
            return holders

    @contextmanager
    def held_still(self) -> Iterator[Counter[int]]:
        """Holders by process id, and nobody enters or leaves before the block ends."""
        with self._turn():
            yield self._locked()

    def close(self) -> None:
        """Forget what this process holds and let go of the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._pid != os.getpid():
            self._start_afresh()
        with self._mutex:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _TURN)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _TURN)

    def _start_afresh(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._tokens: set[int] = set()
        self._next_token = 0
        with self._turn():
            stretches, peak = self._state()
            self._stretch = _STRETCHES + stretches * _ROOM
            os.pwrite(self._fd, _STATE.pack(stretches + 1, peak), 0)

    def _state(self) -> tuple[int, int]:
        stretches, peak = _STATE.unpack(os.pread(self._fd, _STATE.size, 0) or bytes(_STATE.size))
        return stretches, peak

    def _raise_peak(self) -> None:
        stretches, peak = self._state()
        if (now := self._locked().total()) > peak:
            os.pwrite(self._fd, _STATE.pack(stretches, now), 0)

    def _locked(self) -> Counter[int]:
        """Ask the kernel for any lock in a range, then again on both sides of what it named."""
        holders: Counter[int] = Counter()
        ranges = [(_STRETCHES, _END)]
        while ranges:
            start, end = ranges.pop()
            found = self._any_lock(start, end)
            if found is not None:
                first, length, pid = found
                holders[pid] += length
                ranges += [(a, b) for a, b in ((start, first), (first + length, end)) if a < b]
        return holders

    def _any_lock(self, start: int, end: int) -> tuple[int, int, int] | None:
        # Asked in the name of the description, which owns none of these locks, so that our own are seen as well.
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end - start, 0)
        kind, _, first, length, pid = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else (first, length, pid)
