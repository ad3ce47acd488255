"""The ASGI middleware under real uvicorn workers, with real clients and an independent witness."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import hardcap
from tests.support.processes import eventually
from tests.support.servers import Server, uvicorn

APP = "tests.support.held_app:app"
WORKERS = 4
TIMEOUT = httpx.Timeout(60)


@pytest.fixture
def env(name: str, segment_dir: Path) -> dict[str, str]:
    return {"HARDCAP_NAME": name, "HARDCAP_DIR": os.fspath(segment_dir)}


def in_flight(name: str, segment_dir: Path) -> int:
    return hardcap.inspect(name, segment_dir).resources[0].in_flight


def client(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=TIMEOUT, trust_env=False)


# --- B45: one cap over all workers -----------------------------------------------------------------------------------


class Holders:
    """Streams kept open through connections of their own, and the workers that answered or refused."""

    def __init__(self, server: Server) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT, limits=limits, trust_env=False)
        self._stack = contextlib.AsyncExitStack()
        self.admitted: list[str] = []
        self.refused: list[str] = []

    async def add(self, count: int) -> None:
        await asyncio.gather(*(self._add() for _ in range(count)))

    async def _add(self) -> None:
        response = await self._stack.enter_async_context(self._client.stream("GET", "/hold"))
        assert response.status_code in (200, 503)
        workers = self.admitted if response.status_code == 200 else self.refused
        workers.append(response.headers["x-worker"])
        if response.status_code == 503:
            assert await response.aread() and response.headers["retry-after"] == "1"

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, server: Server) -> AsyncIterator[Holders]:
        holders = cls(server)
        async with holders._client, holders._stack:
            yield holders


def test_b45_four_workers_share_one_limit(env: dict[str, str], name: str, segment_dir: Path, tmp_path: Path) -> None:
    async def fill(server: Server) -> None:
        async with Holders.of(server) as holders:
            while len(set(holders.refused)) < WORKERS:  # each of the four has said no by itself
                await holders.add(10)
            assert len(holders.admitted) == server.holders == in_flight(name, segment_dir) == WORKERS
            async with httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT, trust_env=False) as probe:
                assert [(await probe.get(path)).status_code for path in ("/health", "/metrics/")] == [200, 200]
            assert in_flight(name, segment_dir) == WORKERS

    with uvicorn(APP, tmp_path, workers=WORKERS, env={**env, "HARDCAP_LIMIT": str(WORKERS)}) as server:
        asyncio.run(asyncio.wait_for(fill(server), 60))
        eventually(lambda: server.holders == in_flight(name, segment_dir) == 0, "clients gone, units back")
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


# --- one worker, one request after the other -------------------------------------------------------------------------


@pytest.fixture
def single(env: dict[str, str], tmp_path: Path) -> Iterator[Server]:
    """A server of one worker and a limit of one."""
    with uvicorn(APP, tmp_path, env={**env, "HARDCAP_LIMIT": "1"}) as server:
        yield server


def test_b03_b22_b44_b45_the_unit_follows_the_response(single: Server, name: str, segment_dir: Path) -> None:
    with client(single) as one, client(single) as other:
        assert [one.get("/").status_code for _ in range(3)] == [200] * 3  # a limit of one admits one
        with one.stream("GET", "/hold") as response:
            chunks = response.iter_bytes()
            assert next(chunks).startswith(b"chunk")
            check_refusals(other)
            assert single.holders == in_flight(name, segment_dir) == 1
            single.let_go()
            assert b"".join(chunks).endswith(b"end")
        eventually(lambda: other.get("/").status_code == 200, "the unit is back")
        single.hold()
        for _ in range(3):  # failed, and disconnected in the middle
            eventually(lambda: one.get("/fail").status_code == 500, "the unit is back")
            with contextlib.suppress(httpx.HTTPError), one.stream("GET", "/hold") as response:
                assert response.status_code == 200
            eventually(lambda: other.get("/").status_code == 200, "the unit is back")
    eventually(lambda: in_flight(name, segment_dir) == 0, "nothing in flight")


def check_refusals(client: httpx.Client) -> None:
    """Refusals on one kept connection, which stays in step: with a body unread, without one, to HEAD."""
    refused = client.get("/")
    assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["code"] == 503
    assert int(refused.headers["content-length"]) == len(refused.content)
    assert client.post("/", content=bytes(1 << 20)).content == refused.content
    head = client.head("/")
    assert head.status_code == 503 and head.content == b""
    assert head.headers["content-length"] == refused.headers["content-length"]
    assert client.get("/health").text == "ok"


def test_b29_refused_clients_that_neither_send_nor_read_disturb_nobody(
    single: Server, name: str, segment_dir: Path
) -> None:
    address = urlsplit(single.url)
    assert address.hostname and address.port
    with contextlib.ExitStack() as stack, client(single) as one:
        with one.stream("GET", "/hold"):
            slow = [
                stack.enter_context(socket.create_connection((address.hostname, address.port), 60)) for _ in range(50)
            ]
            for connection in slow:
                connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\nbegin")
            eventually(lambda: hardcap.inspect(name, segment_dir).totals.rejected["requests"] == 50, "50 refused")
            assert single.holders == in_flight(name, segment_dir) == 1
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
