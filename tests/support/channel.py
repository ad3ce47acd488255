"""A byte pipe by path, for any number of processes, however they were started: barriers and tallies."""

from __future__ import annotations

import contextlib
import os
import select
import time

from tests.support.processes import DEADLINE


class Channel:
    """A FIFO, opened both ways so that nobody waits for a peer and nobody sees an end."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def send(self, data: bytes) -> None:
        """At most 4096 bytes, in one piece. ``send(b"." * n)`` opens the barrier for ``n`` at once."""
        os.write(self._fd, data)

    def wait(self) -> bytes:
        """Wait for one byte, as one of many."""
        return os.read(self._fd, 1)

    def collect(self, count: int) -> bytes:
        """``count`` bytes, as the only reader. ``TimeoutError`` after a generous deadline."""
        until, data = time.monotonic() + DEADLINE, b""
        while len(data) < count:
            if not select.select([self._fd], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"{len(data)} of {count} answered")
            data += os.read(self._fd, count - len(data))
        return data

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)
