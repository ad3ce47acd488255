"""An application that takes 1 ms of processor time a request, as the environment asks; uvicorn runs it in every worker.

``BURNING_ADMISSION`` is ``none`` (as by default), ``shared`` (then hardcap reads its own variables), or ``spinning``:
shared, and slower by 200 us a request on purpose. ``BURNING_WAIT`` are seconds for which a request waits besides.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from hardcap.asgi import HardcapMiddleware

WORK_NS: Final = 1_000_000
SPIN_NS: Final = 200_000

_WAIT: Final = float(os.environ.get("BURNING_WAIT", "0"))


def burn(nanoseconds: int) -> None:
    """Take so much processor time of this thread."""
    until = time.thread_time_ns() + nanoseconds
    while time.thread_time_ns() < until:
        pass


async def answer(body: bytes, send: Send) -> None:
    """The shortest whole response."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Spinning:
    """A middleware that is too slow, which must be seen."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        burn(SPIN_NS)
        await self._app(scope, receive, send)


async def _work(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"  # there is no lifespan, which uvicorn takes for an answer
    if scope["path"] == "/health":
        await answer(str(os.getpid()).encode(), send)
        return
    if _WAIT:
        await asyncio.sleep(_WAIT)
    burn(WORK_NS)
    await answer(b"done", send)


def _admission(app: ASGIApp) -> ASGIApp:
    match os.environ.get("BURNING_ADMISSION", "none"):
        case "none":
            return app
        case "shared":
            return HardcapMiddleware(app)
        case "spinning":
            return Spinning(HardcapMiddleware(app))
        case other:
            raise ValueError(f"BURNING_ADMISSION is '{other}', allowed: none, shared, spinning")


app: Final = _admission(_work)
