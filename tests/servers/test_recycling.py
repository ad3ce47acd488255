"""Workers that end and are replaced while the server runs: after a number of requests, and when the code changes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import httpx
import pytest

import hardcap
from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import Server, gunicorn, uvicorn
from tests.support.streams import Streams, client_of

REQUESTS = 20
KINDS = {
    "sync": ["tests.support.held_wsgi:app", "--worker-class", "sync"],
    "gthread": ["tests.support.held_wsgi:app", "--worker-class", "gthread", "--threads", "2"],
    "uvicorn": ["tests.support.held_app:app", "--worker-class", "uvicorn_worker.UvicornWorker"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_recycled_workers_leave_no_slot_taken_and_no_total_behind(
    env: Env, name: str, segment_dir: Path, tmp_path: Path, kind: str
) -> None:
    app, *options = KINDS[kind]
    options += ["--max-requests", "5"]
    with (
        hardcap.open(name, limit=1, directory=segment_dir) as limiter,  # attached, so that the totals stay
        gunicorn(app, tmp_path, *options, env=env(1)) as server,
        client_of(server) as client,
    ):
        served = {admitted(client) for _ in range(REQUESTS)}
        assert len(served) > 1  # a worker on its way out may serve some more
        assert limiter.snapshot().totals.admitted == REQUESTS
        eventually(lambda: limiter.in_flight == 0, "nothing in flight")
        present = {process.pid for process in limiter.snapshot().processes if process.alive}
        assert len(present - {os.getpid()}) <= 2  # the one that serves, and the one before on its way out
        server.let_go()


def wait_for_reload(server: Server, number: int) -> None:
    eventually(lambda: server.log.count("Reloading") == number, "the change is seen")


def admitted(client: httpx.Client) -> int:
    """One request answered by whatever worker; its process id."""
    answers: list[httpx.Response] = []

    def once() -> bool:
        with contextlib.suppress(httpx.TransportError):  # a worker that ends drops connections it did not serve
            answers.append(client.get("/"))
            return answers[-1].status_code == 200
        return False

    eventually(once, "admitted")
    return int(answers[-1].headers["x-worker"])


def test_uvicorn_reloads_under_a_stream(env: Env, name: str, segment_dir: Path, tmp_path: Path) -> None:
    """The old process ends its stream first; the new one has a slot of its own, and the old one's is free."""
    source = tmp_path / "service.py"
    source.write_text("from tests.support.held_app import app as app\n")
    options = ["--reload", "--reload-dir", os.fspath(tmp_path), "--app-dir", os.fspath(tmp_path)]
    with uvicorn("service:app", tmp_path, *options, env=env(1)) as server:
        for number in (1, 2):
            before = server.started
            with Streams(server) as streams:
                streams.hold_any()
                (worker,) = streams.held
                assert {process.pid for process in hardcap.inspect(name, segment_dir).processes} == {worker}
                later = source.stat().st_mtime + 10
                os.utime(source, (later, later))
                wait_for_reload(server, number)
                streams.go_on(worker)
                server.let_go()
                assert streams.end(worker).endswith(b"end")
            server.wait_for_more(before, 1)
            server.hold()
        assert server.stop() == 0
