"""A limiter made at import, before gunicorn forks its workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import hardcap
from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import gunicorn
from tests.support.streams import Streams

WORKERS = 4
KINDS = {
    "gthread": ["tests.support.preloaded:wsgi_app", "--worker-class", "gthread", "--threads", "3"],
    "uvicorn": ["tests.support.preloaded:asgi_app", "--worker-class", "uvicorn_worker.UvicornWorker"],
}


def status(pid: int, field: str) -> str:
    """A line of what the kernel tells of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in text.splitlines() if line.startswith(f"{field}:"))


@pytest.mark.parametrize("kind", KINDS)
def test_b07_b15_workers_of_a_preloaded_app_have_slots_of_their_own_and_notice_a_death_by_themselves(
    env: Env, name: str, segment_dir: Path, tmp_path: Path, kind: str
) -> None:
    def held() -> dict[int, int]:
        return {process.pid: process.held for process in hardcap.inspect(name, segment_dir).processes}

    app, *options = KINDS[kind]
    environ = env(WORKERS) | {"PYTHONWARNINGS": "default::DeprecationWarning"}
    with (
        gunicorn(app, tmp_path, "--preload", *options, workers=WORKERS, env=environ) as server,
        Streams(server) as streams,
    ):
        arbiter, workers = server.process.pid, server.started
        assert len(workers) == WORKERS
        assert status(arbiter, "Threads") == "1"
        streams.hold_one_of_each(workers)
        assert held() == {arbiter: 0, **dict.fromkeys(workers, 1)}

        server.signal(signal.SIGSTOP)  # it neither reaps nor replaces
        victim = workers.pop()
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: status(victim, "State") == "Z", "the victim is dead, and nobody has asked for it")
        streams.hold_any()
        survivors = {pid: units for pid, units in held().items() if units}
        assert survivors.keys() == workers and sum(survivors.values()) == WORKERS
        for worker in workers:
            streams.go_on(worker)
        server.signal(signal.SIGCONT)
        server.let_go()
        assert all(streams.end(worker).endswith(b"end") for worker in workers)
        eventually(lambda: len(server.started) == WORKERS + 1, "the victim is replaced")
        eventually(lambda: not any(held().values()), "nothing in flight")
        assert server.stop() == 0
        assert "multi-threaded" not in server.log
