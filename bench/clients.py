"""The load: clients that keep a fixed number of requests in flight, each on a connection of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import aiohttp

from bench.results import Unusable
from bench.server import Server

ASK_AGAIN: Final = (0.02, 0.05)  # seconds from a refusal to the next try
ASSEMBLY_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 10.0
_AT_ONCE: Final = 16  # connections tried in one round


@dataclass
class Tally:
    """What all clients met: seconds for each admitted and each refused request, and what went wrong how often."""

    admitted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Connection(Protocol):
    """What one client asks on. What goes wrong is one of ``ERRORS``."""

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""

    async def close(self) -> None:
        """Idempotent."""


ERRORS: Final = (aiohttp.ClientError, TimeoutError, OSError)


class Session:
    """A connection of aiohttp, made anew where the server closes it."""

    def __init__(self, server: Server) -> None:
        self._session = aiohttp.ClientSession(
            server.address,
            connector=aiohttp.TCPConnector(limit=1),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self._session.get(path) as response:
            return response.status, await response.read()

    async def close(self) -> None:
        await self._session.close()


class Crowd:
    """Clients that ask all the time, as many on each worker; a context manager that closes their connections.

    Workers share one listening socket, and a kept-alive connection stays with the worker that took it, which under
    no load is nearly always the same one. So connections are made until every worker has its share.
    """

    def __init__(
        self,
        server: Server,
        size: int,
        connect: Callable[[Server], Connection] = Session,
        ask_again: tuple[float, float] = ASK_AGAIN,
    ) -> None:
        self.tally = Tally()
        self._server = server
        self._share = size // server.workers
        self._connect = connect
        self._ask_again = ask_again
        self._seats: defaultdict[int, list[Connection]] = defaultdict(list)
        self._stopping = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(ASSEMBLY_SECONDS):
                while self._missing():
                    self._server.check()
                    await self._seat_some()
                await self._warm_up()
        except TimeoutError:
            await _close(self._connections())
            reached = f"{len(self._seats)} of {self._server.workers} workers within {ASSEMBLY_SECONDS:.0f} s"
            raise Unusable(f"uvicorn served on {reached}: {self._server.last_words()}") from None
        except BaseException:
            await _close(self._connections())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await _close(self._connections())

    async def ask(self) -> None:
        """Until ``stop``: every client asks, and asks again as soon as it is answered, or after a refusal's pause."""
        async with asyncio.TaskGroup() as group:
            for connection in self._connections():
                group.create_task(self._ask_on(connection))

    @property
    def workers(self) -> list[int]:
        """The process of each worker."""
        return list(self._seats)

    async def ask_for(self, seconds: float) -> tuple[Tally, float]:
        """Ask for so long: what was met, and how many seconds it took until all were answered."""
        self.tally, self._stopping = Tally(), False
        begun = time.perf_counter()
        asyncio.get_running_loop().call_later(seconds, self.stop)
        await self.ask()
        return self.tally, time.perf_counter() - begun

    def stop(self) -> None:
        """No new requests; ``ask`` returns when those under way are answered."""
        self._stopping = True

    def _connections(self) -> list[Connection]:
        return [connection for seated in self._seats.values() for connection in seated]

    def _missing(self) -> int:
        return self._share * self._server.workers - len(self._connections())

    async def _seat_some(self) -> None:
        candidates = [self._connect(self._server) for _ in range(min(_AT_ONCE, self._missing()))]
        try:
            workers = await asyncio.gather(*map(_worker, candidates))
        except BaseException:
            await _close(candidates)
            raise
        turned_away = []
        for connection, pid in zip(candidates, workers, strict=True):
            if pid is not None and len(self._seats[pid]) < self._share:
                self._seats[pid].append(connection)
            else:
                turned_away.append(connection)
        try:
            await _close(turned_away)
        except asyncio.CancelledError:  # in the middle of it: none of them may stay open
            await _close(turned_away)
            raise
        if turned_away == candidates:
            await asyncio.sleep(0.05)

    async def _warm_up(self) -> None:
        """One request on each worker, not tallied: what a worker does once, it has done."""
        await asyncio.gather(*(self._ask_once(seated[0]) for seated in self._seats.values()))
        self.tally = Tally()

    async def _ask_on(self, connection: Connection) -> None:
        while not self._stopping:
            if not await self._ask_once(connection):
                await asyncio.sleep(random.uniform(*self._ask_again))

    async def _ask_once(self, connection: Connection) -> bool:
        begun = time.perf_counter()
        try:
            status, body = await connection.get("/")
        except ERRORS as error:
            self.tally.errors[type(error).__name__] += 1
            return False
        took = time.perf_counter() - begun
        if status == 200:
            self.tally.admitted.append(took)
        elif status == 503 and b'"overloaded"' in body:  # any other 503 is a failure, not a refusal
            self.tally.refused.append(took)
        else:
            self.tally.errors[f"status {status}: {body[:100].decode(errors='replace')}"] += 1
        return status == 200


async def _close(connections: Iterable[Connection]) -> None:
    for connection in connections:
        await connection.close()


async def _worker(connection: Connection) -> int | None:
    try:
        _, body = await connection.get("/health")
        return int(body)
    except ERRORS:
        return None
