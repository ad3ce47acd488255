"""Real servers on loopback, with a deadline for everything, killed and reaped in the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.processes import DEADLINE, ROOT, eventually

_LISTENING = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
_UVICORN = ["--host", "127.0.0.1", "--port", "0", "--loop", "uvloop", "--http", "httptools", "--no-access-log"]


class Server:
    """One server program; its workers are told the directory of the witness: see `tests.support.held_app`."""

    def __init__(self, command: Sequence[str], witness: Path, workers: int, env: dict[str, str]) -> None:
        self.witness = witness
        self.workers = workers
        self._log = os.memfd_create("log")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env=os.environ | {"WITNESS": os.fspath(witness)} | env,
        )

    @property
    def log(self) -> str:
        return os.pread(self._log, 1 << 20, 0).decode(errors="replace")

    @property
    def url(self) -> str:
        """Where it listens. Port 0 was asked for, so the log is the only one to know."""
        eventually(lambda: self._running() is not None, "the server runs")
        found = self._running()
        assert found
        return found[1]

    def _running(self) -> re.Match[str] | None:
        assert self.process.poll() is None, self.log
        return _LISTENING.search(self.log)

    def wait_until_started(self) -> None:
        eventually(lambda: len(self.files("startup")) == self.workers, "every worker has started")

    def files(self, prefix: str) -> list[str]:
        """The files of this prefix in the witness's directory."""
        return [name for name in os.listdir(self.witness) if name.startswith(prefix)]

    @property
    def started(self) -> set[int]:
        """The workers that there ever were, by process id."""
        return {int(name.partition("-")[2]) for name in self.files("startup")}

    @property
    def holders(self) -> int:
        """Requests inside the application at this moment, by the witness."""
        return len(self.files("holder"))

    def let_go(self) -> None:
        """End all requests that are held, and all that come, until `hold`."""
        (self.witness / "open").touch()

    def hold(self) -> None:
        (self.witness / "open").unlink()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, as a supervisor does. Its exit status."""
        self.signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:  # orphaned workers are adopted by the test, see `leaks.adopt_orphans`
                os.waitpid(-self.process.pid, 0)
        os.close(self._log)


@contextlib.contextmanager
def _started(command: Sequence[str], witness: Path, workers: int, env: dict[str, str] | None) -> Iterator[Server]:
    """A server that has started, all its workers included."""
    server = Server(command, witness, workers, env or {})
    try:
        assert server.url
        server.wait_until_started()
        yield server
    finally:
        server.close()


def uvicorn(
    app: str, witness: Path, *options: str, workers: int = 1, env: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Server]:
    multiple = [] if "--reload" in options else ["--workers", str(workers)]
    return _started(["uvicorn", app, *_UVICORN, *multiple, *options], witness, workers, env)


def spawned(
    *middleware: str, witness: Path, workers: int, env: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Server]:
    """Workers spawned on one listening socket, as vLLM starts its API servers: see `tests.support.spawned_servers`."""
    return _started(["tests.support.spawned_servers", str(workers), *middleware], witness, workers, env)
