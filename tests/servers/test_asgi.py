"""The ASGI middleware, driven directly: from when until when a request counts, and what it leaves as it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

import hardcap
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import LAST, START, Exchange, Gated, Message, pause, sends, step

LIMIT = 2


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=LIMIT, directory=segment_dir) as limiter:
        yield limiter


# --- B03: the unit is held as long as the response lasts -------------------------------------------------------------


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"chunk"


def through(app: Any) -> Any:
    """Starlette's BaseHTTPMiddleware, which passes the response on through a stream of its own."""

    async def dispatch(request: Any, call_next: Callable[[Any], Any]) -> Any:
        return await call_next(request)

    return BaseHTTPMiddleware(app, dispatch=dispatch)


def file_response(path: Path) -> FileResponse:
    path.write_bytes(bytes(300_000))  # several chunks
    return FileResponse(path)


APPS: dict[str, Callable[[Path], Any]] = {
    "async generator": lambda _: StreamingResponse(chunks()),
    "sync generator": lambda _: StreamingResponse(iter([b"chunk"] * 3)),
    "raw": lambda _: sends(START, {**LAST, "more_body": True}, LAST),
    "file": file_response,
    "plain": lambda _: Response(b"whole"),
}
WRAPPINGS: dict[str, Callable[[Any, hardcap.Limiter], Any]] = {
    "alone": HardcapMiddleware,
    "base middleware inside": lambda app, limiter: HardcapMiddleware(through(app), limiter),
    "base middleware outside": lambda app, limiter: through(HardcapMiddleware(app, limiter)),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("kind", [kind for kind in APPS if kind != "plain"])
def test_b03_streaming_responses_count_until_their_end(
    limiter: hardcap.Limiter, tmp_path: Path, kind: str, wrapping: str
) -> None:
    async def main() -> None:
        def app() -> Any:
            return WRAPPINGS[wrapping](APPS[kind](tmp_path / "file"), limiter)

        streams = [Gated() for _ in range(LIMIT)]
        tasks = [asyncio.create_task(stream.run(app())) for stream in streams]
        for stream in streams:
            await stream.waiting.wait()
        assert limiter.in_flight == LIMIT
        refused = await Exchange().run(app())
        assert refused.status == 503 and refused.headers[b"retry-after"] == b"1"
        assert limiter.in_flight == LIMIT
        for stream in streams:
            stream.gate.set()
        await asyncio.gather(*tasks)
        assert [stream.status for stream in streams] == [200] * LIMIT
        assert limiter.in_flight == 0

    asyncio.run(asyncio.wait_for(main(), 60))


TRAILERS: Message = {"type": "http.response.trailers", "headers": [(b"x-sum", b"1")]}
RESPONSES: dict[str, list[Message]] = {
    "one body": [START, LAST],
    "no more_body": [START, {**LAST, "more_body": False}],
    "three bodies": [START, {**LAST, "more_body": True}, {**LAST, "more_body": True}, LAST],
    "path": [START, {"type": "http.response.pathsend", "path": "/dev/null"}],
    "descriptor": [START, {"type": "http.response.zerocopysend", "file": 0, "more_body": True}, LAST],
    "trailers": [{**START, "trailers": True}, LAST, {**TRAILERS, "more_trailers": True}, TRAILERS],
    "trailers after a path": [
        {**START, "trailers": True},
        {"type": "http.response.pathsend", "path": "/dev/null"},
        TRAILERS,
    ],
    "early hint and push": [
        {"type": "http.response.early_hint", "links": [b"</x>; rel=preload"]},
        {"type": "http.response.push", "path": "/x", "headers": []},
        START,
        LAST,
    ],
}


@pytest.mark.parametrize("response", RESPONSES)
def test_b03_the_unit_is_back_once_the_server_has_taken_the_last_message(
    limiter: hardcap.Limiter, response: str
) -> None:
    during: list[int] = []
    after: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in RESPONSES[response]:
            await send(message)
            after.append(limiter.in_flight)

    async def send(message: Message) -> None:
        during.append(limiter.in_flight)
        await pause()
        during.append(limiter.in_flight)

    step(HardcapMiddleware(app, limiter)(Exchange().scope, Exchange().receive, send))
    messages = len(RESPONSES[response])
    assert during == [1] * (2 * messages)
    assert after == [1] * (messages - 1) + [0]


@pytest.mark.parametrize(("release_on", "while_in_background"), [("response", 0), ("app", 1)])
def test_b03_background_tasks_count_only_if_asked(
    limiter: hardcap.Limiter, release_on: str, while_in_background: int
) -> None:
    seen: list[int] = []

    async def background() -> None:
        seen.append(limiter.in_flight)

    app = HardcapMiddleware(Response(background=BackgroundTask(background)), limiter, release_on=release_on)
    asyncio.run(Exchange().run(app))
    assert seen == [while_in_background]
    assert limiter.in_flight == 0


def test_a_response_that_announces_trailers_and_sends_none_counts_until_the_app_ends(
    limiter: hardcap.Limiter,
) -> None:
    step(Exchange().run(HardcapMiddleware(sends({**START, "trailers": True}, LAST), limiter)))
    assert limiter.in_flight == 0


# --- B28: what is not counted is not touched, and what is counted is passed on as it was -----------------------------


@pytest.mark.parametrize("kind", ["lifespan", "websocket", "tcp"])
def test_b28_other_scopes_pass_when_draining(limiter: hardcap.Limiter, kind: str) -> None:
    limiter.set_limit(0)
    exchange = Exchange(type=kind)
    calls: list[tuple[Any, ...]] = []

    async def app(*call: Any) -> None:
        calls.append(call)
        assert limiter.in_flight == 0

    asyncio.run(HardcapMiddleware(app, limiter)(exchange.scope, exchange.receive, exchange.send))
    assert calls == [(exchange.scope, exchange.receive, exchange.send)]


@pytest.mark.parametrize("response", RESPONSES)
def test_b28_the_messages_are_those_of_the_app_alone(limiter: hardcap.Limiter, response: str) -> None:
    app = sends(*RESPONSES[response])
    wrapped = asyncio.run(Exchange().run(HardcapMiddleware(app, limiter)))
    assert wrapped.sent == asyncio.run(Exchange().run(app)).sent == RESPONSES[response]


@pytest.mark.parametrize(("kind", "pathsend"), [("plain", False), ("file", False), ("file", True)])
def test_b28_starlette_responses_arrive_as_they_are(
    limiter: hardcap.Limiter, tmp_path: Path, kind: str, pathsend: bool
) -> None:
    extensions: dict[str, Any] = {"http.response.pathsend": {}} if pathsend else {}
    app = APPS[kind](tmp_path / "file")
    alone = asyncio.run(Exchange(extensions=extensions).run(app))
    wrapped = asyncio.run(Exchange(extensions=extensions).run(HardcapMiddleware(app, limiter)))
    assert wrapped.sent == alone.sent
    assert limiter.in_flight == 0


def test_b28_a_starlette_application_and_its_lifespan(limiter: hardcap.Limiter) -> None:
    seen: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        seen.append("startup")
        yield
        seen.append("shutdown")

    async def endpoint(_: Request) -> Response:
        return Response(f"{limiter.in_flight} in flight")

    app = Starlette(
        routes=[Route("/", endpoint), Mount("/api", routes=[Route("/health", endpoint)])],
        middleware=[Middleware(HardcapMiddleware, limiter)],
        lifespan=lifespan,
    )

    async def main() -> None:
        limiter.set_limit(0)
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        events = Exchange(type="lifespan")

        async def receive() -> Message:
            return next(messages)

        await app(events.scope, receive, events.send)
        assert [message["type"] for message in events.sent] == [
            "lifespan.startup.complete",
            "lifespan.shutdown.complete",
        ]
        assert (await Exchange().run(app)).status == 503
        limiter.set_limit(1)
        assert (await Exchange().run(app)).body == b"1 in flight"

    asyncio.run(main())
    assert seen == ["startup", "shutdown"]
