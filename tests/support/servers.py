"""A real server on loopback, with a deadline for everything, killed and reaped in the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.support.processes import DEADLINE, ROOT, eventually


class Server:
    """A command in a session of its own, told the directory of the witness: see `tests.support.held_app`."""

    running: re.Pattern[str]  # what it logs when it listens, and where

    def __init__(self, witness: Path, workers: int, command: Sequence[str], env: dict[str, str]) -> None:
        self.witness = witness
        self.workers = workers
        self._log = os.memfd_create("log")
        self.process = subprocess.Popen(
            ["prlimit", "--core=0", sys.executable, *command],
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
        return self.running.search(self.log)

    def wait_until_started(self) -> None:
        eventually(lambda: len(self.files("startup")) == self.workers, "every worker has started")

    def files(self, prefix: str) -> list[str]:
        """The files of this prefix in the witness's directory."""
        return [name for name in os.listdir(self.witness) if name.startswith(prefix)]

    @property
    def holders(self) -> int:
        """Requests inside the application at this moment, by the witness."""
        return len(self.files("holder"))

    def let_go(self) -> None:
        """End all requests that are held, and all that come, until `hold`."""
        (self.witness / "open").touch()

    def hold(self) -> None:
        (self.witness / "open").unlink()

    def stop(self) -> int:
        """SIGTERM, as a supervisor does. Its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(ChildProcessError):
            while True:  # orphaned workers are adopted by the test, see `leaks.adopt_orphans`
                os.waitpid(-self.process.pid, 0)
        os.close(self._log)


class Uvicorn(Server):
    """``app`` served by ``workers`` processes."""

    running = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")

    def __init__(self, app: str, witness: Path, workers: int, env: dict[str, str]) -> None:
        options = ["--host", "127.0.0.1", "--port", "0", "--loop", "uvloop", "--http", "httptools"]
        command = ["-m", "uvicorn", app, "--workers", str(workers), "--no-access-log", *options]
        super().__init__(witness, workers, command, env)


class Gunicorn(Server):
    """``app`` served by ``workers`` processes of one kind, which an arbiter starts, and replaces when they die."""

    running = re.compile(r"Listening at: (http://127\.0\.0\.1:\d+)")

    def __init__(
        self, app: str, kind: str, witness: Path, workers: int, options: Sequence[str], env: dict[str, str]
    ) -> None:
        script = os.fspath(Path(sys.executable).with_name("gunicorn"))  # which it can run again, unlike a module
        command = [script, app, "-k", kind, "-w", str(workers), "-b", "127.0.0.1:0", "--no-control-socket"]
        super().__init__(witness, workers, [*command, *options], env)

    def wait_until_started(self) -> None:
        eventually(lambda: len(self.booted) >= self.workers, "every worker has booted")

    @property
    def booted(self) -> list[int]:
        """The process ids of all workers that there ever were."""
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", self.log)]

    @property
    def arbiters(self) -> list[int]:
        """The process ids of the arbiter and of those that took over from it."""
        return [int(pid) for pid in re.findall(r"Listening at: \S+ \((\d+)\)", self.log)]


@contextlib.contextmanager
def gunicorn(
    app: str, kind: str, witness: Path, *options: str, workers: int, env: dict[str, str]
) -> Iterator[Gunicorn]:
    """A gunicorn whose first workers have booted."""
    with _started(Gunicorn(app, kind, witness, workers, options, env)) as server:
        yield server


@contextlib.contextmanager
def uvicorn(app: str, witness: Path, *, workers: int = 1, env: dict[str, str] | None = None) -> Iterator[Uvicorn]:
    """A server that has started, all its workers included."""
    with _started(Uvicorn(app, witness, workers, env or {})) as server:
        yield server


AnyServer = TypeVar("AnyServer", bound=Server)


@contextlib.contextmanager
def _started(server: AnyServer) -> Iterator[AnyServer]:
    try:
        assert server.url
        server.wait_until_started()
        yield server
    finally:
        server.close()
