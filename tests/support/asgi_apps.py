"""The same application three times, bare, in Starlette and in FastAPI, each behind a middleware of its own.

The first part of the path says which. ``/hold`` streams, ``/silent`` says nothing, until the file ``open`` is there or
the client has left; ``/fail`` raises before a response, ``/break`` within one; else the answer is ``ok``. ``/patient``
is the bare one where requests wait, ``/socket`` where WebSockets are counted. See `tests.support.held_app`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hardcap.asgi import HardcapMiddleware
from tests.support.held_app import disconnected, held, is_open, lifespan, plain, signed


async def chunks() -> AsyncIterator[bytes]:
    with held():
        while not is_open():
            yield b"chunk "
            await asyncio.sleep(0.01)
    yield b"end"


async def broken() -> AsyncIterator[bytes]:
    yield b"chunk "
    raise LookupError("the application's own")


async def hold(request: Request) -> Response:
    return StreamingResponse(chunks())


async def silent(request: Request) -> Response:
    with held():
        while not is_open() and not await request.is_disconnected():
            await asyncio.sleep(0.01)
    return PlainTextResponse("late")


async def fail(request: Request) -> Response:
    raise LookupError("the application's own")


async def breaks(request: Request) -> Response:
    return StreamingResponse(broken())


async def ok(request: Request) -> Response:
    return PlainTextResponse("ok")


ENDPOINTS = {"/hold": hold, "/silent": silent, "/fail": fail, "/break": breaks, "/": ok}


def starlette() -> Starlette:
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in ENDPOINTS.items()])
    app.add_middleware(HardcapMiddleware)
    return app


def fastapi() -> FastAPI:
    app = FastAPI()
    for path, endpoint in ENDPOINTS.items():
        app.add_api_route(path, endpoint)
    app.add_middleware(HardcapMiddleware)
    return app


async def socket(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    with held():
        await disconnected(receive)


APPS: dict[str, Any] = {
    "bare": HardcapMiddleware(plain),
    "starlette": starlette(),
    "fastapi": fastapi(),
    "patient": HardcapMiddleware(plain, timeout=60),
    "socket": HardcapMiddleware(socket, websockets=True),
}


async def dispatch(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    name = scope["path"].split("/")[1]
    path = scope["path"].removeprefix(f"/{name}")
    await APPS[name]({**scope, "path": path, "raw_path": path.encode()}, receive, send)


app = signed(dispatch)
