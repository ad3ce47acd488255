"""A wrong setting under real uvicorn: no worker serves, and the server ends, as far as it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.conftest import Env
from tests.support.processes import DEADLINE, eventually, python_path
from tests.support.servers import Server, any_port
from tests.support.streams import client_of

MIDDLEWARE = (
    "from starlette.applications import Starlette\nfrom hardcap.asgi import HardcapMiddleware\napp = Starlette()\n"
)
APPS = {
    "read at import": "import hardcap\napp.add_middleware(HardcapMiddleware, config=hardcap.Config.from_env())\n",
    "read at start": "app.add_middleware(HardcapMiddleware)\n",
}
TOLD = "hardcap.errors.ConfigError: HARDCAP_LIMIT is 'ten', allowed: "


@contextmanager
def uvicorn(env: Env, directory: Path, app: str, *options: str) -> Iterator[Server]:
    """Started, with a limit that is none."""
    (directory / "service.py").write_text(MIDDLEWARE + APPS[app])
    dead_soon = ["--timeout-worker-healthcheck", "5"]  # seconds: none of these workers ever answers
    command = [*any_port(["uvicorn", "service:app", *options]), *dead_soon]
    server = Server(command, directory, 0, env("ten") | {"PYTHONPATH": python_path(directory)})
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    ("app", "options"),
    [
        ("read at import", []),
        ("read at start", ["--lifespan", "on"]),
        ("read at start", ["--lifespan", "on", "--workers", "2"]),
    ],
)
def test_the_server_ends_and_says_why(env: Env, tmp_path: Path, app: str, options: list[str]) -> None:
    with uvicorn(env, tmp_path, app, *options) as server:
        server.process.wait(DEADLINE)
        assert TOLD in server.log


def test_several_workers_fail_one_after_the_other(env: Env, tmp_path: Path) -> None:
    """uvicorn takes an error at import for an accident, and starts another worker."""
    with uvicorn(env, tmp_path, "read at import", "--workers", "2") as server:
        eventually(lambda: server.log.count(TOLD) > 2, "a third one has failed")
        assert "startup complete" not in server.log


def test_a_server_that_is_not_told_to_end_answers_500(env: Env, tmp_path: Path) -> None:
    """The control: what an application without a lifespan looks like to uvicorn."""
    with uvicorn(env, tmp_path, "read at start") as server, client_of(server) as client:
        eventually(lambda: "startup complete" in server.log, "it serves")
        assert client.get("/").status_code == 500
        assert TOLD in server.log
