"""Every way to start that the README shows, started as it stands there: all processes share the cap."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import httpx
import pytest

import hardcap
from tests.servers.conftest import Env
from tests.support.commands import complaints, run
from tests.support.processes import ROOT, eventually
from tests.support.servers import Server, any_port
from tests.support.streams import client_of

SECTION = (ROOT / "README.md").read_text().partition("### Ways to start")[2].partition("\n## ")[0]
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^(?:gunicorn|uvicorn|python) .*$", SECTION, re.M)]
SERVERS = [command for command in COMMANDS if not command.startswith("python")]
PROGRAMS = [command for command in COMMANDS if command.startswith("python")]


def test_the_readme_shows_them() -> None:
    words = {word for command in COMMANDS for word in shlex.split(command)}
    assert {"--preload", "--max-requests", "--timeout", "--reload", "gthread"} <= words
    assert {"fork", "forkserver", "spawn", "threads", "loops"} <= words


@pytest.mark.parametrize("command", SERVERS)
def test_a_server_is_under_the_cap_from_its_first_request(
    env: Env, name: str, segment_dir: Path, tmp_path: Path, command: str
) -> None:
    with hardcap.open(name, limit=10, directory=segment_dir) as limiter:
        server = Server(any_port(shlex.split(command)), tmp_path, 0, env(10))
        try:
            with client_of(server) as client:
                eventually(lambda: listens(client), "it takes connections")
                assert statuses(client) == {200}
                limiter.set_limit(0)
                assert statuses(client) == {503}
            assert limiter.snapshot().totals.admitted == 8
        finally:
            server.close()


def listens(client: httpx.Client) -> bool:
    """Whether it answers at all, to a request that does not count: uvicorn says that it runs before it listens."""
    with contextlib.suppress(httpx.ConnectError):
        client.get("/health")
        return True
    return False


def statuses(client: httpx.Client) -> set[int]:
    """Of enough requests to meet several of the processes."""
    return {client.get("/").status_code for _ in range(8)}


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_is_under_the_cap(command: str) -> None:
    _, _, *arguments = shlex.split(command)  # python -m
    done = run(*arguments)
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert re.fullmatch(f"{arguments[-1]}: 24 tasks, at most [12] of 2 at once\n", done.stdout)
