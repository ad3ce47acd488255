"""Clients of `tests.support.held_app` and its WSGI counterpart that hold requests of chosen workers."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import httpx

from tests.support.processes import eventually
from tests.support.servers import Server

TIMEOUT = httpx.Timeout(60)


def client_of(server: Server) -> httpx.Client:
    """Without kept connections: each request may go to another worker."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=server.url, timeout=TIMEOUT, limits=limits, trust_env=False)


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
