"""A closed loop: as many requests in flight as asked for, all the time, each begun when another has ended."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, NamedTuple, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from bench.results import Unusable
from bench.target import Target

ASK_AGAIN: Final = (0.02, 0.05)  # seconds from a failure to the next try
# A kept-alive connection stays with the worker that took it; connections are renewed, so that idle workers take more.
REQUESTS_PER_CONNECTION: Final = 10


class Answer(NamedTuple):
    """One request from begin to end, in seconds of ``time.perf_counter``; ``failure`` is empty if it was served."""

    begun: float
    ended: float
    failure: str
    refused: bool = False

    @property
    def latency(self) -> float:
        return self.ended - self.begun


@dataclass(frozen=True)
class Question:
    """What every request asks: a GET, or a POST of the body. ``timeout`` is in seconds."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = 10.0


class Steady:
    """The load on one target; a context manager that lets the requests under way end, unless it is left by an error."""

    def __init__(self, target: Target, question: Question) -> None:
        self.answers: list[Answer] = []
        self._target = target
        self._question = question
        self._size = 0
        self._clients: dict[int, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=_Pinned(self._target.addresses)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._question.headers,
            timeout=aiohttp.ClientTimeout(total=self._question.timeout),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resize(0)
        if kind:
            for client in self._clients.values():
                client.cancel()
        try:
            await asyncio.gather(*self._clients.values(), return_exceptions=kind is not None)
        finally:
            await self._session.close()

    def resize(self, size: int) -> None:
        """From now on ``size`` requests in flight; where that is fewer, as those under way end."""
        self._size = size
        for seat in range(size):
            if seat not in self._clients or self._clients[seat].done():
                self._clients[seat] = asyncio.create_task(self._ask_on(seat))

    async def reach(self) -> None:
        """One request that does not count; ``Unusable`` where nobody answers, whatever the answer."""
        try:
            await self._status({})
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or f"no answer within {self._question.timeout:g} s"
            raise Unusable(f"cannot reach '{self._target.url}': {reason}") from error

    async def _ask_on(self, seat: int) -> None:
        left = random.randint(1, REQUESTS_PER_CONNECTION)
        while seat < self._size:
            left = left - 1 or REQUESTS_PER_CONNECTION
            answer = await self._ask_once({"Connection": "close"} if left == 1 else {})
            self.answers.append(answer)
            if answer.failure:
                await asyncio.sleep(random.uniform(*ASK_AGAIN))

    async def _ask_once(self, headers: Mapping[str, str]) -> Answer:
        begun = time.perf_counter()
        try:
            status, refused = await self._status(headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            return Answer(begun, time.perf_counter(), type(error).__name__)
        failure = "" if 200 <= status < 300 else f"status {status}"
        return Answer(begun, time.perf_counter(), failure, refused)

    async def _status(self, headers: Mapping[str, str]) -> tuple[int, bool]:
        """Status, and whether it says that there is a limit. A redirect is not followed: it may lead anywhere."""
        method = "GET" if self._question.body is None else "POST"
        asked = self._session.request(
            method, self._target.url, data=self._question.body, headers=headers, allow_redirects=False
        )
        async with asked as response:
            await response.read()
            limited = response.status == 503 and "Retry-After" in response.headers
            return response.status, limited or response.status == 429


class _Pinned(AbstractResolver):
    """The addresses that were looked up and judged, whatever the name has become since."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [self._result(host, port, address) for address in self._addresses]

    async def close(self) -> None:
        """Nothing is kept open."""

    @staticmethod
    def _result(host: str, port: int, address: str) -> ResolveResult:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)
