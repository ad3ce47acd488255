"""The WSGI middleware under real gunicorn workers, with real clients and an independent witness."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import Server, gunicorn
from tests.support.streams import check_refusals, client_of

APP = "tests.support.held_wsgi:app"
CLASSES = {"sync": ["--worker-class", "sync"], "gthread": ["--worker-class", "gthread", "--threads", "4"]}
LARGE = 64 << 20  # bytes: more than the sockets between server and client take


@pytest.fixture(params=CLASSES)
def server(request: pytest.FixtureRequest, env: Env, tmp_path: Path) -> Iterator[Server]:
    """Three workers, a limit of two."""
    os.truncate(os.open(tmp_path / "large", os.O_CREAT | os.O_WRONLY), LARGE)
    with gunicorn(APP, tmp_path, *CLASSES[request.param], workers=3, env=env(2)) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as client:
        yield client


def all_back(server: Server, in_flight: Callable[[], int]) -> None:
    eventually(lambda: server.holders == in_flight() == 0, "every unit is back")


def test_b03_b44_b45_the_unit_follows_the_response(
    server: Server, client: httpx.Client, in_flight: Callable[[], int]
) -> None:
    with client.stream("GET", "/hold") as one, client.stream("GET", "/hold") as other:
        streams = [one.iter_bytes(), other.iter_bytes()]
        assert all(next(stream).startswith(b"chunk") for stream in streams)
        assert server.holders == in_flight() == 2
        check_refusals(server, unread=10_000)
        assert server.holders == in_flight() == 2
        server.let_go()
        assert all(b"".join(stream).endswith(b"end") for stream in streams)
    all_back(server, in_flight)
    assert client.get("/").text == "ok"
    assert server.stop() == 0
    assert "Traceback" not in server.log


def test_b22_failures_and_disconnects_leave_nothing(
    server: Server, client: httpx.Client, in_flight: Callable[[], int]
) -> None:
    for _ in range(3):  # more than the limit, so a unit that were lost would be missed
        for path in ("/fail/call", "/fail/body", "/fail/close"):
            with contextlib.suppress(httpx.RemoteProtocolError):
                assert client.get(path).status_code in (500, 200)
        for path in ("/hold", "/file"):
            with client_of(server) as leaving, leaving.stream("GET", path) as response:
                assert response.status_code == 200
        all_back(server, in_flight)
    assert client.get("/").status_code == 200


def test_b03_a_file_is_sent_by_the_kernel_and_counts_until_it_is(
    server: Server, client: httpx.Client, in_flight: Callable[[], int]
) -> None:
    with client.stream("GET", "/file") as one, client.stream("GET", "/file") as other:
        streams = [one.iter_raw(), other.iter_raw()]
        assert all(next(stream) for stream in streams)
        assert in_flight() == 2
        assert client.get("/").status_code == 503
        assert sum(map(len, streams[0])) > LARGE - (1 << 20)
        eventually(lambda: client.get("/").status_code == 200, "one unit is back")
    all_back(server, in_flight)
    assert server.files("read") == []


def test_a_server_that_reads_files_itself_is_seen(env: Env, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(100_000))
    with gunicorn(APP, tmp_path, "--no-sendfile", env=env(2)) as server, client_of(server) as client:
        assert client.get("/file").content == bytes(100_000)
        assert server.files("read") == ["read"]


def test_the_witness_catches_an_uncapped_run(tmp_path: Path) -> None:
    options = CLASSES["gthread"]
    with gunicorn("tests.support.held_wsgi:uncapped", tmp_path, *options) as server, client_of(server) as client:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                assert stack.enter_context(client.stream("GET", "/hold")).status_code == 200
            eventually(lambda: server.holders == 3, "three at once")
        eventually(lambda: server.holders == 0, "all have noticed that the clients left")
