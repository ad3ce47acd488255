"""Clients of `tests.support.held_app` and its WSGI counterpart, also such as hold requests of chosen workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any

import httpx

from tests.support.processes import DEADLINE, eventually
from tests.support.servers import Server


def client_of(server: Server, *, keeps: bool = False) -> httpx.Client:
    """Unless it ``keeps`` its connections, each request may go to another worker."""
    return httpx.Client(**_options(server, 20 if keeps else 0))


def _options(server: Server, kept: int) -> dict[str, Any]:
    """Nothing is encrypted here, and to load the certificates that a client trusts takes longer than most requests."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
    return {"base_url": server.url, "timeout": DEADLINE, "limits": limits, "trust_env": False, "verify": False}


def check_refusals(server: Server, at: str = "/", unread: int = 100_000) -> None:
    """On one kept connection, which stays in step; whoever sends a body that nobody reads may lose his."""
    with client_of(server, keeps=True) as client, client_of(server) as sending:
        for _ in range(2):
            whole = client.get(at)
            assert (whole.status_code, whole.headers["retry-after"], whole.json()["error"]["code"]) == (503, "1", 503)
            assert int(whole.headers["content-length"]) == len(whole.content)
            head = client.head(at)
            assert (head.status_code, head.content) == (503, b"")
            assert head.headers["content-length"] == whole.headers["content-length"]
            assert sending.post(at, content=bytes(unread)).content == whole.content
        assert client.get(f"{at}health").status_code != 503


class Streams:
    """Requests held; ``held`` are the process ids of their workers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stack = contextlib.ExitStack()
        self._client = self._stack.enter_context(client_of(server))
        self._chunks: dict[int, Iterator[bytes]] = {}

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def held(self) -> set[int]:
        return set(self._chunks)

    def hold_one_of_each(self, workers: Collection[int]) -> None:
        """Ask until each of these workers holds one."""
        eventually(lambda: self._ask() > 0 and set(workers) <= self.held, f"{workers} hold a request each")

    def hold_any(self) -> None:
        """Ask until one more is admitted, by whatever worker."""
        eventually(lambda: self._ask(of_each=False) == 200, "one more is admitted")

    def _ask(self, *, of_each: bool = True) -> int:
        """One request, kept if admitted; with ``of_each`` only if its worker holds none. The status of the answer."""
        with contextlib.ExitStack() as unless_kept:
            response = unless_kept.enter_context(self._client.stream("GET", "/hold"))
            worker = int(response.headers["x-worker"])
            if response.status_code == 200 and not (of_each and worker in self._chunks):
                self._chunks.setdefault(worker, response.iter_raw())
                self._stack.push(unless_kept.pop_all())
            return response.status_code

    def go_on(self, worker: int) -> None:
        """One more chunk comes."""
        assert next(self._chunks[worker])

    def end(self, worker: int) -> bytes:
        """All that is still to come."""
        return b"".join(self._chunks.pop(worker))


class Holders:
    """Streams kept open through connections of their own, and the workers that answered or refused."""

    def __init__(self, server: Server) -> None:
        self._client = httpx.AsyncClient(**_options(server, 0))
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
