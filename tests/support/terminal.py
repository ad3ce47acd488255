"""A command in a terminal of 80 columns, and what it shows there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pyte

from tests.support.processes import DEADLINE, ROOT

COLUMNS, LINES = 80, 24
WIDE = 200  # of the picture that is kept: in one of 80 columns no line could be too long


class Terminal:
    """The screen of one process, as a person would see it."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._screen = pyte.Screen(WIDE, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self.widest = 0  # columns of the longest line that it ever showed
        self.status: int | None = None

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_until(self, seen: Callable[[str], bool], what: str) -> None:
        """Read on until that is on the screen."""
        deadline = time.monotonic() + DEADLINE
        while not seen(self.text):
            assert time.monotonic() < deadline, f"not seen: {what}\n{self.text}"
            self._read(0.1)

    def finish(self) -> int:
        """Read on until the process ends. Its exit status."""
        while self._read(DEADLINE):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def _read(self, seconds: float) -> bool:
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        with contextlib.suppress(OSError):  # the other end is closed
            data = os.read(self._descriptor, 65536)
            self.written += data
            self._stream.feed(data)
            self.widest = max(self.widest, *map(len, self.text.split("\n")))
            return bool(data)
        return False


@contextlib.contextmanager
def terminal(*command: str, env: dict[str, str] | None = None) -> Iterator[Terminal]:
    """A module, run in a terminal; killed in the end if it has not ended."""
    pid, descriptor = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        os.chdir(ROOT)
        environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        strictly = [sys.executable, "-W", "error", "-X", "dev", "-m", *command]
        os.execve(sys.executable, strictly, environ | {"TERM": "xterm-256color"} | (env or {}))
    shown = Terminal(pid, descriptor)
    try:
        yield shown
    finally:
        if shown.status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)
