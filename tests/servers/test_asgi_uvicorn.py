"""The ASGI middleware under real uvicorn workers, with real clients and an independent witness."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import hardcap
from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import Server, uvicorn
from tests.support.streams import Holders, client_of

APP = "tests.support.held_app:app"
WORKERS = 4


# --- B45: one cap over all workers -----------------------------------------------------------------------------------


def test_b45_four_workers_share_one_limit(
    env: Env, in_flight: Callable[[], int], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    async def fill(server: Server) -> None:
        async with Holders.of(server) as holders:
            while len(set(holders.refused)) < WORKERS:  # each of the four has said no by itself
                await holders.add(10)
            assert len(holders.admitted) == server.holders == in_flight() == WORKERS
            with client_of(server) as probe:
                assert [probe.get(path).status_code for path in ("/health", "/metrics/")] == [200, 200]
            assert in_flight() == WORKERS

    with uvicorn(APP, tmp_path, workers=WORKERS, env=env(WORKERS)) as server:
        asyncio.run(asyncio.wait_for(fill(server), 60))
        eventually(lambda: server.holders == in_flight() == 0, "clients gone, units back")
        assert len(hardcap.inspect(name, segment_dir).processes) == WORKERS
        assert server.stop() == 0
        assert len(server.files("shutdown")) == WORKERS
        assert "Traceback" not in server.log


def test_b45_the_witness_catches_an_uncapped_run(tmp_path: Path) -> None:
    async def fill(server: Server) -> None:
        async with Holders.of(server) as holders:
            await holders.add(2 * WORKERS)
            assert server.holders == 2 * WORKERS

    with uvicorn(APP, tmp_path) as server:
        asyncio.run(asyncio.wait_for(fill(server), 60))


# --- B29: clients that come to stay ----------------------------------------------------------------------------------


def test_b29_refused_clients_that_neither_send_nor_read_disturb_nobody(
    env: Env, in_flight: Callable[[], int], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    with (
        uvicorn(APP, tmp_path, env=env(1)) as server,
        contextlib.ExitStack() as stack,
        client_of(server, keeps=True) as one,
    ):
        with one.stream("GET", "/hold"):
            slow = [stack.enter_context(socket.create_connection(server.address, 60)) for _ in range(50)]
            for connection in slow:
                connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\nbegin")
            eventually(lambda: hardcap.inspect(name, segment_dir).totals.rejected["requests"] == 50, "50 refused")
            assert server.holders == in_flight() == 1
        eventually(lambda: one.get("/").status_code == 200, "admitted again")
        for connection in slow:  # the refusal was sent whole, with most of the request still to come
            assert_refused(connection)


def assert_refused(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < int(length.partition(b":")[2]):
        chunk = connection.recv(65536)
        assert chunk
        body += chunk
