"""The middleware without a server: ASGI applications called directly, by the processor time that a request takes."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bench.apps.burning import Spinning, answer
from bench.baselines import Hardcap
from bench.figures import Figures
from bench.laps import Lap, alternate
from bench.rounds import Step
from hardcap.asgi import HardcapMiddleware

BARE: Final = "bare"
AGAIN: Final = "bare again"
HARDCAP: Final = "hardcap"
CORS: Final = "CORSMiddleware"
CORS_ORIGIN: Final = "CORSMiddleware, other origin"
SPINNING: Final = "hardcap and 200 us"
ROUTE: Final = "Starlette, a route"
REFUSAL: Final = "hardcap, refused"

LIMIT: Final = 10

# What httptools makes of a request by curl. CORSMiddleware does more where it is of another origin.
HEADERS: Final = [(b"host", b"127.0.0.1:8000"), (b"user-agent", b"curl/8.5.0"), (b"accept", b"*/*")]
ORIGIN: Final = (b"origin", b"https://example.com")
SCOPE: Final = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "server": ("127.0.0.1", 8000),
    "client": ("127.0.0.1", 40000),
    "scheme": "http",
    "method": "GET",
    "root_path": "",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "state": {},
}

# The scope is new for each request, as a server's is: applications write in it.
REQUEST: Final = "finish(app({**scope, 'headers': headers.copy()}, receive, send))"


def measure(mode: Hardcap, rounds: int, step: Step) -> dict[str, Figures]:
    """The figures of all of the above by name; a "pair" of theirs is a request."""
    with mode.open("bench-free", LIMIT) as free, mode.open("bench-full", LIMIT) as full:
        for _ in range(LIMIT):
            full.reserve()
        guarded, cors = HardcapMiddleware(_bare, free), CORSMiddleware(_bare, allow_origins=["*"])
        laps = {
            BARE: _lap(_bare),
            AGAIN: _lap(_bare),
            HARDCAP: _lap(guarded),
            CORS: _lap(cors),
            CORS_ORIGIN: _lap(cors, [*HEADERS, ORIGIN]),
            SPINNING: _lap(Spinning(guarded)),
            ROUTE: _lap(Starlette(routes=[Route("/", _page)])),
            REFUSAL: _lap(HardcapMiddleware(_bare, full)),
        }
        figures = {name: Figures(mode, 1, LIMIT) for name in laps}
        alternate(list(laps.values()), list(figures.values()), rounds, step)
    return figures


def added(figures: Mapping[str, Figures], name: str) -> Figures:
    """What a request takes behind a middleware more than without, round by round."""
    rounds = zip(figures[name].pair_ns, figures[BARE].pair_ns, strict=True)
    return replace(figures[name], pair_ns=[behind - bare for behind, bare in rounds])


def _lap(app: ASGIApp, headers: list[tuple[bytes, bytes]] = HEADERS) -> Lap:
    return Lap(REQUEST, finish=_finish, app=app, scope=SCOPE, headers=headers, receive=_receive, send=_send)


def _finish(request: Coroutine[Any, Any, None]) -> None:
    """Run it to its end: nothing in it waits."""
    try:
        request.send(None)
    except StopIteration:
        return
    raise RuntimeError("a request waits for something")


async def _bare(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(b"done", send)


async def _page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("done")


async def _receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: Message) -> None:
    pass
