"""The ASGI middleware, driven directly: WebSockets, counted when asked, and requests that pass several middlewares."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route

import hardcap
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import LAST, START, Exchange, Message, never, sends, step

DENIAL: dict[str, dict[str, str]] = {"websocket.http.response": {}}


class Socket(Exchange):
    """A WebSocket whose client sends what it is told, then stays."""

    def __init__(self, *messages: str, **scope: Any) -> None:
        super().__init__(type="websocket", **scope)
        del self.scope["method"]
        self._messages = iter(messages or ("websocket.connect",))

    async def receive(self) -> Message:
        self.received += 1
        return {"type": next(self._messages)}


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        yield limiter


# --- WebSockets ------------------------------------------------------------------------------------------------------


def test_b28_a_websocket_is_refused_by_the_denial_response(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(0)
    socket = Socket(extensions=DENIAL)
    step(socket.run(HardcapMiddleware(never, limiter, websockets=True, retry_after=3)))
    kinds = [message["type"] for message in socket.sent]
    assert kinds == ["websocket.http.response.start", "websocket.http.response.body"]
    assert (socket.status, socket.headers[b"retry-after"]) == (503, b"3")
    assert json.loads(socket.body)["error"]["code"] == 503


@pytest.mark.parametrize("scope", [{}, {"extensions": None}, {"extensions": {"tls": {}}}], ids=repr)
def test_b28_else_it_is_closed(limiter: hardcap.Limiter, scope: dict[str, Any]) -> None:
    limiter.set_limit(0)
    socket = Socket(**scope)
    step(socket.run(HardcapMiddleware(never, limiter, websockets=True)))
    assert [(message["type"], message["code"]) for message in socket.sent] == [("websocket.close", 1013)]
    assert socket.received == 1


def test_b28_one_that_has_left_is_told_nothing(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(0)
    socket = Socket("websocket.disconnect", extensions=DENIAL)
    step(socket.run(HardcapMiddleware(never, limiter, websockets=True)))
    assert socket.sent == []


CLOSE = {"type": "websocket.close", "code": 1000}
DENIED = [
    {"type": "websocket.http.response.start", "status": 403, "headers": []},
    {"type": "websocket.http.response.body", "body": b"no", "more_body": True},
    {"type": "websocket.http.response.body", "body": b"pe"},
]


@pytest.mark.parametrize(
    ("messages", "held"),
    [
        ([{"type": "websocket.accept"}, {"type": "websocket.send", "text": "x"}], [1, 1]),
        ([{"type": "websocket.accept"}, CLOSE], [1, 0]),
        (DENIED, [1, 1, 0]),
    ],
)
def test_a_counted_websocket_counts_until_it_is_closed(
    limiter: hardcap.Limiter, messages: list[Message], held: list[int]
) -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)
            seen.append(limiter.in_flight)

    socket = Socket()
    step(socket.run(HardcapMiddleware(app, limiter, websockets=True)))
    assert (socket.sent, seen) == (messages, held)
    assert limiter.in_flight == 0


def test_they_are_not_counted_unless_asked(limiter: hardcap.Limiter) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert limiter.in_flight == 0
        await send(CLOSE)

    limiter.set_limit(0)
    socket = Socket()
    step(socket.run(HardcapMiddleware(app, limiter)))
    assert socket.sent == [CLOSE]


# --- several middlewares around each other ---------------------------------------------------------------------------


def test_nested_middlewares_of_one_segment_count_once(
    name: str, segment_dir: Path, tmp_path: Path, limiter: hardcap.Limiter
) -> None:
    """Whatever each was given: the limiter, another of that name, or how to open one, by whatever path."""
    seen: list[int] = []
    (tmp_path / "link").symlink_to(segment_dir)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(limiter.in_flight)
        await sends(START, LAST)(scope, receive, send)
        seen.append(limiter.in_flight)

    with hardcap.open(name, directory=segment_dir) as other:
        config = hardcap.Config(name, directory=tmp_path / "link")
        inner = HardcapMiddleware(HardcapMiddleware(app, limiter), config=config, release_on="app")
        counted = HardcapMiddleware(inner, other)
        for _ in range(2):
            assert asyncio.run(Exchange().run(counted)).status == 200
    assert seen == [1, 0] * 2
    assert limiter.snapshot().totals.admitted == 2


def test_middlewares_of_two_segments_count_in_both(name: str, segment_dir: Path, limiter: hardcap.Limiter) -> None:
    with hardcap.open(f"{name}-other", limit=0, directory=segment_dir) as other:
        counted = HardcapMiddleware(HardcapMiddleware(never, other), limiter)
        assert asyncio.run(Exchange().run(counted)).status == 503
        assert limiter.snapshot().totals.admitted == 1
        assert limiter.in_flight == 0


def test_a_request_that_is_tried_again_counts_again(limiter: hardcap.Limiter) -> None:
    """By a middleware further out, with the same scope."""
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(limiter.in_flight)

    counted, exchange = HardcapMiddleware(app, limiter), Exchange()
    for _ in range(2):
        step(counted(exchange.scope, exchange.receive, exchange.send))
    assert seen == [1, 1]


def test_a_mounted_application_with_a_middleware_of_its_own_counts_once(limiter: hardcap.Limiter) -> None:
    async def endpoint(_: Any) -> Response:
        return Response(str(limiter.in_flight))

    counting = [Middleware(HardcapMiddleware, limiter)]
    mounted = Starlette(routes=[Route("/", endpoint)], middleware=counting)
    app = Starlette(routes=[Mount("/below", mounted)], middleware=counting)
    exchange = asyncio.run(Exchange("/below/").run(app))
    assert (exchange.status, exchange.body) == (200, b"1")
