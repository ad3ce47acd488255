"""A service whose capacity is known, to be served by uvicorn.

Configured by the environment: ``CAPACITY`` is how many requests it works on at once (none: any number), while others
wait; from ``REFUSING`` present on it answers 503 with ``Retry-After``, from ``FAILING`` on 500.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

SECONDS = 0.05  # that one request is worked on

CAPACITY = int(os.environ.get("CAPACITY", 0))
REFUSING = int(os.environ.get("REFUSING", sys.maxsize))
FAILING = int(os.environ.get("FAILING", sys.maxsize))
_room = asyncio.Semaphore(CAPACITY) if CAPACITY else contextlib.nullcontext()
_present: set[object] = set()


async def app(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    body = (await receive()).get("body", b"")
    me = object()
    _present.add(me)
    try:
        status = await answer(len(_present))
    finally:
        _present.discard(me)
    headers = [(b"retry-after", b"1")] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer(present: int) -> int:
    if present >= REFUSING:
        return 503
    if present >= FAILING:
        return 500
    async with _room:
        await asyncio.sleep(SECONDS)
    return 200
