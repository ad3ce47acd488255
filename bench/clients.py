"""The load: clients that keep a fixed number of requests in flight, each on a connection of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

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


class Crowd:
    """Clients that ask all the time, as many on each worker; a context manager that closes their connections.

    Workers share one listening socket, and a kept-alive connection stays with the worker that took it, which under
    no load is nearly always the same one. So connections are made until every worker has its share.
    """

    def __init__(self, server: Server, size: int) -> None:
        self.tally = Tally()
        self._server = server
        self._share = size // server.workers
        self._seats: defaultdict[int, list[aiohttp.ClientSession]] = defaultdict(list)
        self._stopping = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(ASSEMBLY_SECONDS):
                while self._missing():
                    self._server.check()
                    await self._seat_some()
                await self._warm_up()
        except TimeoutError:
            await _close(self._sessions())
            reached = f"{len(self._seats)} of {self._server.workers} workers within {ASSEMBLY_SECONDS:.0f} s"
            raise Unusable(f"uvicorn served on {reached}: {self._server.last_words()}") from None
        except BaseException:
            await _close(self._sessions())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await _close(self._sessions())

    async def ask(self) -> None:
        """Until ``stop``: every client asks, and asks again as soon as it is answered, or after a refusal's pause."""
        async with asyncio.TaskGroup() as group:
            for session in self._sessions():
                group.create_task(self._ask_on(session))

    def stop(self) -> None:
        """No new requests; ``ask`` returns when those under way are answered."""
        self._stopping = True

    def _sessions(self) -> list[aiohttp.ClientSession]:
        return [session for seated in self._seats.values() for session in seated]

    def _missing(self) -> int:
        return self._share * self._server.workers - len(self._sessions())

    async def _seat_some(self) -> None:
        candidates = [self._connect() for _ in range(min(_AT_ONCE, self._missing()))]
        try:
            workers = await asyncio.gather(*map(_worker, candidates))
        except BaseException:
            await _close(candidates)
            raise
        turned_away = []
        for session, pid in zip(candidates, workers, strict=True):
            if pid is not None and len(self._seats[pid]) < self._share:
                self._seats[pid].append(session)
            else:
                turned_away.append(session)
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

    def _connect(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            self._server.address,
            connector=aiohttp.TCPConnector(limit=1),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )

    async def _ask_on(self, session: aiohttp.ClientSession) -> None:
        while not self._stopping:
            if not await self._ask_once(session):
                await asyncio.sleep(random.uniform(*ASK_AGAIN))

    async def _ask_once(self, session: aiohttp.ClientSession) -> bool:
        begun = time.perf_counter()
        try:
            async with session.get("/") as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.tally.errors[type(error).__name__] += 1
            return False
        took = time.perf_counter() - begun
        if response.status == 200:
            self.tally.admitted.append(took)
        elif response.status == 503 and b'"overloaded"' in body:  # any other 503 is a failure, not a refusal
            self.tally.refused.append(took)
        else:
            self.tally.errors[f"status {response.status}: {body[:100].decode(errors='replace')}"] += 1
        return response.status == 200


async def _close(sessions: Iterable[aiohttp.ClientSession]) -> None:
    for session in sessions:
        await session.close()


async def _worker(session: aiohttp.ClientSession) -> int | None:
    try:
        async with session.get("/health") as response:
            return int(await response.text())
    except (aiohttp.ClientError, TimeoutError):
        return None
