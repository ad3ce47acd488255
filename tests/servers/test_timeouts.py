"""Workers that gunicorn ends for hanging: by SIGABRT, and by SIGKILL where that does not help."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import hardcap
from tests.servers.conftest import Env
from tests.support.forms import FULL
from tests.support.processes import eventually
from tests.support.servers import Server, gunicorn
from tests.support.streams import client_of

WORKERS = 2
LIMIT = 2
ROUNDS = 2 if FULL else 1
WSGI = "tests.support.held_wsgi:app"
ASGI = "tests.support.held_app:app"
HANGS = {
    "sync in Python": (WSGI, "sync", "python"),
    "sync in C": (WSGI, "sync", "c"),
    "gthread in C": (WSGI, "gthread", "c"),
    "uvicorn in the loop": (ASGI, "uvicorn_worker.UvicornWorker", "python"),
    "uvicorn in C": (ASGI, "uvicorn_worker.UvicornWorker", "c"),
}


def hang(server: Server, how: str) -> str:
    """Ask for what never ends. How it ended."""
    with client_of(server) as client:
        try:
            return str(client.get(f"/sleep/{how}").status_code)
        except httpx.TransportError as error:
            return type(error).__name__


@pytest.mark.parametrize("kind", HANGS)
def test_b34_after_each_round_of_timeouts_there_is_exactly_the_limit(
    env: Env, name: str, segment_dir: Path, tmp_path: Path, kind: str
) -> None:
    app, worker_class, how = HANGS[kind]
    options = ["--worker-class", worker_class, "--timeout", "1"]
    with (
        hardcap.open(name, limit=LIMIT, directory=segment_dir) as limiter,
        gunicorn(app, tmp_path, *options, workers=WORKERS, env=env(LIMIT)) as server,
        ThreadPoolExecutor(WORKERS) as clients,
    ):
        for _ in range(ROUNDS):
            before = server.started
            hanging = [clients.submit(hang, server, how) for _ in range(WORKERS)]
            assert "200" not in [answer.result(60) for answer in hanging]
            server.wait_for_more(before, 1)
            eventually(lambda: limiter.reap() >= 0 and limiter.in_flight == 0, "all units are back")
            assert [limiter.reserve() for _ in range(LIMIT + 1)] == [True] * LIMIT + [False]
            limiter.release(LIMIT)
        assert "WORKER TIMEOUT" in server.log
