"""A service whose capacity is known.

Configured by the environment: ``CAPACITY`` requests are worked on at once (without it any number), each for ``WORK``
seconds, while others wait. From ``TROUBLE`` requests present on, each is answered ``STATUS`` at once. With ``EXPECTED``
only a POST of that body, with a header ``x-key`` that says the same, is served. ``/peak`` tells the most ever present.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

from tests.support.held_app import lifespan

CAPACITY = int(os.environ.get("CAPACITY", 0))
WORK = float(os.environ.get("WORK", 0.05))
TROUBLE = int(os.environ.get("TROUBLE", sys.maxsize))
STATUS = int(os.environ.get("STATUS", 500))
EXPECTED = os.environ.get("EXPECTED", "").encode()
HEADERS = {302: [(b"location", b"http://192.0.2.1/")], 503: [(b"retry-after", b"1")]}

_room = asyncio.Semaphore(CAPACITY) if CAPACITY else contextlib.nullcontext()
_present: set[object] = set()
_peak = 0


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["path"] == "/peak":
        await respond(send, 200, b"%d" % _peak)
    else:
        await respond(send, await serve(scope, (await receive()).get("body", b"")))


async def serve(scope: Any, body: bytes) -> int:
    if EXPECTED and (scope["method"], body, dict(scope["headers"]).get(b"x-key")) != ("POST", EXPECTED, EXPECTED):
        return 400
    with present() as count:
        if count >= TROUBLE:
            return STATUS
        async with _room:
            await asyncio.sleep(WORK)
    return 200


@contextlib.contextmanager
def present() -> Any:
    global _peak
    me = object()
    _present.add(me)
    _peak = max(_peak, len(_present))
    try:
        yield len(_present)
    finally:
        _present.discard(me)


async def respond(send: Any, status: int, body: bytes = b"") -> None:
    headers = [(b"content-length", b"%d" % len(body)), *HEADERS.get(status, [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
