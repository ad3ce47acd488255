"""An application whose requests last until the test says so, with a witness that knows nothing of hardcap.

Configured by the environment: ``WITNESS`` is a directory. Every request to ``/hold`` keeps a file of its own there
while it runs, and ends once the file ``open`` is there, or its client has gone; ``/silent`` is the same without a
response until then. ``app`` is capped, ``uncapped`` is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from hardcap.asgi import HardcapMiddleware
from tests.support.hanging import sleep

WITNESS = Path(os.environ["WITNESS"])
_numbers = itertools.count()


@contextlib.contextmanager
def held() -> Iterator[None]:
    holder = WITNESS / f"holder-{os.getpid()}-{next(_numbers)}"
    os.close(os.open(holder, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        yield
    finally:
        holder.unlink()


def is_open() -> bool:
    return (WITNESS / "open").exists()


def start() -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": []}


async def hold(send: Any, receive: Any) -> None:
    async with client_watched(receive) as gone:
        await send(start())
        while not is_open() and not gone.done():
            await send({"type": "http.response.body", "body": b"chunk ", "more_body": True})
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"end"})


async def silent(send: Any, receive: Any) -> None:
    async with client_watched(receive) as gone:
        while not is_open() and not gone.done():
            await asyncio.sleep(0.01)
        await send(start())
        await send({"type": "http.response.body", "body": b"late"})


@contextlib.asynccontextmanager
async def client_watched(receive: Any) -> AsyncIterator[asyncio.Task[None]]:
    """One request is held; the task ends when its client leaves."""
    gone = asyncio.create_task(disconnected(receive))
    try:
        with held():
            yield gone
    finally:
        gone.cancel()


async def disconnected(receive: Any) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def lifespan(receive: Any, send: Any) -> None:
    for phase in ("startup", "shutdown"):
        await receive()
        (WITNESS / f"{phase}-{os.getpid()}").touch()
        await send({"type": f"lifespan.{phase}.complete"})


async def plain(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["path"] == "/hold":
        await hold(send, receive)
    elif scope["path"] == "/silent":
        await silent(send, receive)
    elif scope["path"].startswith("/sleep/"):
        sleep(scope["path"].removeprefix("/sleep/"))
    elif scope["path"] == "/fail":
        raise LookupError("the application's own")
    elif scope["path"] == "/break":
        await send(start())
        await send({"type": "http.response.body", "body": b"chunk ", "more_body": True})
        raise LookupError("the application's own")
    else:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def signed(app: Any) -> Any:
    """Every response says which worker it came from, and takes that worker long enough for others to get the next."""

    async def signing(scope: Any, receive: Any, send: Any) -> None:
        async def sign(message: Any) -> None:
            if message["type"] == "http.response.start":
                time.sleep(0.005)
                message["headers"].append((b"x-worker", b"%d" % os.getpid()))
            await send(message)

        await app(scope, receive, sign if scope["type"] == "http" else send)

    return signing


uncapped = signed(plain)
app = signed(HardcapMiddleware(plain)) if "HARDCAP_NAME" in os.environ else uncapped
