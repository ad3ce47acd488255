"""Real servers on loopback, with a deadline for everything, killed and reaped in the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.server import keep_port
from tests.support.processes import DEADLINE, ROOT, eventually, kill_group, python_path

_LISTENING = re.compile(r"(?:[Rr]unning on|Listening at:) (http://127\.0\.0\.1:\d+)")
_ANY_PORT = {
    # A worker that is slow to start, as on a busy machine, is not taken for a dead one. Well below our own deadline:
    # a supervisor that has asked a worker which is killed before it answers waits for that long, and does nothing else.
    "uvicorn": ["--host", "127.0.0.1", "--port", "0", "--no-access-log", "--timeout-worker-healthcheck", "20"],
    "gunicorn": ["--bind", "127.0.0.1:0", "--no-control-socket"],
    "hypercorn": ["--bind", "127.0.0.1:0"],
    "granian": ["--interface", "asgi", "--host", "127.0.0.1"],
}


def any_port(command: Sequence[str]) -> list[str]:
    """The command of a server, to be started on a port of the kernel's choice."""
    program, *arguments = command
    return [program, *_ANY_PORT.get(program, ()), *arguments]


class Server:
    """One server program; its workers are told the directory of the witness: see `tests.support.held_app`."""

    def __init__(self, command: Sequence[str], witness: Path, workers: int, env: dict[str, str]) -> None:
        self.witness = witness
        self.workers = workers
        self._log = os.memfd_create("log")
        self.process = subprocess.Popen(
            [os.path.join(sysconfig.get_path("scripts"), command[0]), *command[1:]],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": python_path(), "WITNESS": os.fspath(witness)} | env,
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

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the same."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def _running(self) -> re.Match[str] | None:
        assert self.process.poll() is None, self.log
        return _LISTENING.search(self.log)

    def wait_until_started(self) -> None:
        eventually(lambda: len(self.files("startup")) == self.workers, "every worker has started")

    def wait_for_more(self, before: set[int], count: int) -> set[int]:
        """Until there are ``count`` workers that were not there before: these."""
        eventually(lambda: len(self.started - before) >= count, f"{count} more workers have started")
        return self.started - before

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
        kill_group(self.process)
        os.close(self._log)


@contextlib.contextmanager
def _started(command: Sequence[str], witness: Path, workers: int, env: dict[str, str] | None) -> Iterator[Server]:
    """A server that has started, all its workers included."""
    server = Server(any_port(command), witness, workers, env or {})
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
    command = ["uvicorn", app, "--loop", "uvloop", "--http", "httptools", *multiple, *options]
    return _started(command, witness, workers, env)


def gunicorn(
    app: str, witness: Path, *options: str, workers: int = 1, env: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Server]:
    """Workers of the class ``sync``, unless the options say otherwise."""
    hooks = ["--config", "python:tests.support.gunicorn_hooks", "--workers", str(workers)]
    return _started(["gunicorn", app, *hooks, *options], witness, workers, env)


def hypercorn(
    app: str, witness: Path, *options: str, workers: int = 1, env: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Server]:
    return _started(["hypercorn", app, "--workers", str(workers), *options], witness, workers, env)


@contextlib.contextmanager
def granian(
    app: str, witness: Path, *options: str, workers: int = 1, env: dict[str, str] | None = None
) -> Iterator[Server]:
    """It logs the port that it was given, so it is given one that is free."""
    with keep_port(0) as keeper:
        port = ["--port", str(keeper.getsockname()[1])]
        command = ["granian", app, *port, "--workers", str(workers), *options]
        with _started(command, witness, workers, env) as server:
            yield server


def spawned(
    *middleware: str, witness: Path, workers: int, env: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Server]:
    """Workers spawned on one listening socket, as vLLM starts its API servers: see `tests.support.spawned_servers`."""
    command = [sys.executable, "-m", "tests.support.spawned_servers", str(workers), *middleware]
    return _started(command, witness, workers, env)
