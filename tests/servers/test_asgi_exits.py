"""The ASGI middleware, driven directly: whatever the way out of a request, it holds nothing afterwards."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import LAST, START, Exchange, Message, pause, sends, step


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=2, directory=segment_dir) as limiter:
        yield limiter


class Abandoned(BaseException):
    """As far from Exception as can be."""


FAILURES = [
    ValueError("app"),
    asyncio.CancelledError("app"),
    KeyboardInterrupt("app"),
    SystemExit(3),
    GeneratorExit("app"),
    ExceptionGroup("app", [ValueError("one")]),
    BaseExceptionGroup("app", [Abandoned("one"), asyncio.CancelledError()]),
    Abandoned("app"),
]


@pytest.mark.parametrize("started", [False, True], ids=["before the response", "within the response"])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_b22_what_the_app_raises_arrives_unchanged_and_holds_nothing(
    limiter: hardcap.Limiter, failure: BaseException, started: bool
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert limiter.in_flight == 1
        if started:
            await send(START)
        raise failure

    with pytest.raises(type(failure)) as caught:
        step(Exchange().run(HardcapMiddleware(app, limiter)))
    assert caught.value is failure
    assert failure.__cause__ is None and failure.__context__ is None
    assert limiter.in_flight == 0


async def tidy(scope: Any, receive: Any, send: Any) -> None:
    """Cleans up with awaits of its own, which can be cancelled too."""
    try:
        await send(START)
        await pause()
        await send({**LAST, "more_body": True})
        await send(LAST)
    finally:
        await pause()
        await pause()


async def stubborn(scope: Any, receive: Any, send: Any) -> None:
    """Swallows the cancellation and returns."""
    try:
        await tidy(scope, receive, send)
    except asyncio.CancelledError:
        await pause()


async def clumsy(scope: Any, receive: Any, send: Any) -> None:
    """Its cleanup raises an error of its own."""
    try:
        await tidy(scope, receive, send)
    finally:
        raise OSError("cleanup failed")


async def pausing_send(message: Message) -> None:
    await pause()
    await pause()


def outcome(app: Any, cancelled_at: tuple[int, ...]) -> str:
    """How a request ends that is cancelled at these awaits."""
    throws: dict[int, BaseException] = {at: asyncio.CancelledError(f"at {at}") for at in cancelled_at}
    try:
        return f"{step(app(Exchange().scope, Exchange().receive, pausing_send), throws)} awaits"
    except (asyncio.CancelledError, OSError) as error:
        return repr(error)


@pytest.mark.parametrize("release_on", ["response", "app"])
@pytest.mark.parametrize("app", [tidy, stubborn, clumsy], ids=lambda app: str(app.__name__))
def test_b22_cancelled_twice_at_any_two_awaits(limiter: hardcap.Limiter, app: Any, release_on: str) -> None:
    """The second one arrives in the cleanup after the first, wherever that is."""
    wrapped = HardcapMiddleware(app, limiter, release_on=release_on)
    awaits = step(tidy(None, None, pausing_send))
    for cancelled_at in itertools.combinations(range(1, awaits + 1), 2):
        assert outcome(wrapped, cancelled_at) == outcome(app, cancelled_at)
        assert limiter.in_flight == 0
    assert limiter.snapshot().totals.admitted == awaits * (awaits - 1) // 2


def test_b22_a_send_that_fails_on_the_last_message(limiter: hardcap.Limiter) -> None:
    failure = OSError("client gone")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise failure

    with pytest.raises(OSError) as caught:
        step(HardcapMiddleware(sends(START, LAST), limiter)(Exchange().scope, Exchange().receive, send))
    assert caught.value is failure
    assert limiter.in_flight == 0


def test_b22_an_abandoned_request_is_given_back(limiter: hardcap.Limiter) -> None:
    coroutine = HardcapMiddleware(tidy, limiter)(Exchange().scope, Exchange().receive, pausing_send)
    coroutine.send(None)
    assert limiter.in_flight == 1
    with pytest.raises(RuntimeError):  # its cleanup awaits, which a closed coroutine must not
        coroutine.close()
    del coroutine
    assert limiter.in_flight == 0


def test_b22_a_limiter_closed_under_a_request_disturbs_nobody(limiter: hardcap.Limiter) -> None:
    failure = LookupError("the app's own")

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        limiter.close()
        await sends(START, LAST)(scope, receive, send)
        raise failure

    exchange = Exchange()
    with pytest.raises(LookupError) as caught:
        step(exchange.run(HardcapMiddleware(closing, limiter)))
    assert caught.value is failure
    assert exchange.sent == [START, LAST]
