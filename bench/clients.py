"""The load: clients that keep a fixed number of requests in flight, each on a connection of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
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
        self.workers: Counter[int] = Counter()
        self._server = server
        self._share = size // server.workers
        self._size = self._share * server.workers
        self._sessions: list[aiohttp.ClientSession] = []
        self._stopping = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(ASSEMBLY_SECONDS):
                while len(self._sessions) < self._size:
                    self._server.check()
                    await self._seat_some()
        except TimeoutError:
            await self._close()
            reached = f"{len(self.workers)} of {self._server.workers} workers within {ASSEMBLY_SECONDS:.0f} s"
            raise Unusable(f"uvicorn served on {reached}: {self._server.last_words()}") from None
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def ask(self) -> None:
        """Until ``stop``: every client asks, and asks again as soon as it is answered, or after a refusal's pause."""
        async with asyncio.TaskGroup() as group:
            for session in self._sessions:
                group.create_task(self._ask_on(session))

    def stop(self) -> None:
        """No new requests; ``ask`` returns when those under way are answered."""
        self._stopping = True

    async def worker(self) -> int | None:
        """The process id of the worker that takes a new connection; None if none does."""
        session = self._connect()
        try:
            return await _worker(session)
        finally:
            await session.close()

    async def _seat_some(self) -> None:
        candidates = [self._connect() for _ in range(min(_AT_ONCE, self._size - len(self._sessions)))]
        seated = len(self._sessions)
        try:
            for session, pid in zip(candidates, await asyncio.gather(*map(_worker, candidates)), strict=True):
                if pid is not None and self.workers[pid] < self._share:
                    self.workers[pid] += 1
                    self._sessions.append(session)
        finally:
            for session in candidates:
                if session not in self._sessions:
                    await session.close()
        if len(self._sessions) == seated:
            await asyncio.sleep(0.05)

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

    async def _close(self) -> None:
        for session in self._sessions:
            await session.close()


async def _worker(session: aiohttp.ClientSession) -> int | None:
    try:
        async with session.get("/health") as response:
            return int(await response.text())
    except (aiohttp.ClientError, TimeoutError):
        return None
