"""Real uvicorn with several worker processes on loopback, as anyone starts it, and always ended with all it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.results import Unusable

HOST: Final = "127.0.0.1"

_ROOT: Final = Path(__file__).resolve().parent.parent
_FOREIGN: Final = ("UVICORN_", "WEB_CONCURRENCY", "HARDCAP_")  # the caller's own settings are not the benchmark's
_KEPT: Final = "HARDCAP_BACKEND"
_PR_SET_CHILD_SUBREAPER: Final = 36


def keep_port(port: int) -> socket.socket:
    """A socket that keeps a port (0: any free one) for servers to come, since it is bound and never listens."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        keeper.bind((HOST, port))
    except OSError as error:
        keeper.close()
        raise Unusable(f"port {port} on {HOST} is not to be had: {error.strerror}") from error
    return keeper


class Server:
    """uvicorn with ``workers`` processes serving ``app``, an import string, configured by ``environ`` alone.

    A context manager; on exit every process of it is dead and reaped. ``log`` is where it writes.
    """

    def __init__(self, app: str, port: int, workers: int, environ: Mapping[str, str], log: Path) -> None:
        self.port = port
        self.address = f"http://{HOST}:{port}"
        self.workers = workers
        self._log = log
        options = {"app-dir": _ROOT, "host": HOST, "port": port, "workers": workers}
        options |= {"loop": "uvloop", "http": "httptools", "log-level": "warning"}
        self._command = [sys.executable, "-m", "uvicorn", app, "--no-access-log"]
        self._command += [f"--{name}={value}" for name, value in options.items()]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN) or key == _KEPT}
        self._environ = inherited | dict(environ)

    def __enter__(self) -> Self:
        # Workers of a parent that is killed become ours to reap, and not some distant ancestor's.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        group = self._process.pid
        os.killpg(group, signal.SIGKILL)  # it leads the group, and is not reaped yet
        self._process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-group, 0)

    def check(self) -> None:
        """``Unusable``, with the last thing it said, if it has ended by itself."""
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            raise Unusable(f"uvicorn ended by itself: {self.last_words()}")

    def last_words(self) -> str:
        """The last line it wrote."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"
