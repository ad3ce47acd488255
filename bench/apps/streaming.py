"""A small streaming service under the admission that the environment asks for; uvicorn runs it in every worker.

``OVERLOAD_ADMISSION`` is ``none``, ``per-process``, ``semaphore`` or ``shared`` (then hardcap reads its own variables),
``OVERLOAD_LIMIT`` the private cap of a worker, ``OVERLOAD_SEMAPHORE`` the name of the semaphore, and
``OVERLOAD_WITNESS`` the file of the independent count.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bench.apps.caps import Capped, PrivateCount
from bench.witness import Witness

SHORTEST, LONGEST = 0.05, 0.2  # seconds a request takes
CHUNKS = 5


async def _body() -> AsyncIterator[bytes]:
    pause = random.uniform(SHORTEST, LONGEST) / CHUNKS
    for number in range(CHUNKS):
        await asyncio.sleep(pause)
        yield b"chunk %d\n" % number


async def _work(scope: Scope, receive: Receive, send: Send) -> None:
    await StreamingResponse(_body(), media_type="text/plain")(scope, receive, send)


async def _health(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(os.getpid()))


class Witnessed:
    """Counts a request from here until just before its last message, so always within the time it is admitted."""

    def __init__(self, app: ASGIApp, witness: Witness) -> None:
        self._app = app
        self._witness = witness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tokens = [self._witness.enter()]

        def leave() -> None:
            if tokens:
                self._witness.leave(tokens.pop())

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                leave()
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        finally:
            leave()


def _admission(app: ASGIApp) -> ASGIApp:
    match os.environ["OVERLOAD_ADMISSION"]:
        case "none":
            return app
        case "per-process":
            return Capped(app, PrivateCount(int(os.environ["OVERLOAD_LIMIT"])))
        case "semaphore":
            from bench.semaphores import SemaphoreGate

            return Capped(app, SemaphoreGate(os.environ["OVERLOAD_SEMAPHORE"]))
        case "shared":
            from hardcap.asgi import HardcapMiddleware

            return HardcapMiddleware(app)
        case other:
            raise ValueError(f"OVERLOAD_ADMISSION is '{other}', allowed: none, per-process, semaphore, shared")


def _service() -> ASGIApp:
    witnessed = Witnessed(_work, Witness(os.environ["OVERLOAD_WITNESS"]))
    return _admission(Starlette(routes=[Route("/", witnessed), Route("/health", _health)]))


app = _service()
