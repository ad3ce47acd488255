"""The ASGI middleware, driven directly: requests that wait, and clients that leave meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap.asgi import HardcapMiddleware
from hardcap.patience import _KEPT_BYTES
from tests.support.asgi import Arriving, Exchange, Message, never, sends
from tests.support.processes import DEADLINE

PATIENT = 2 * DEADLINE  # seconds: more than any test takes
ANSWER: list[Message] = [{"type": "http.response.start", "status": 200, "headers": []}, {"type": "http.response.body"}]
answers = sends(*ANSWER)


async def reads(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the whole request."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await sends(ANSWER[0], {**ANSWER[1], "body": body})(scope, receive, send)


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        yield limiter


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()
            await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})  # no read is left under way

    asyncio.run(limited())


@asynccontextmanager
async def waiting(exchange: Exchange, app: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """The request waits; at the end it is over."""
    task = asyncio.create_task(exchange.run(app))
    await until(lambda: exchange.received > 0)
    assert not task.done()
    yield task
    await asyncio.wait({task})


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_a_request_waits_for_room(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        exchange = Exchange()
        permit = limiter.admit()
        async with waiting(exchange, HardcapMiddleware(answers, limiter, timeout=PATIENT)):
            permit.release()
        assert exchange.status == 200
        assert limiter.in_flight == 0
        assert limiter.snapshot().totals.rejected == {"requests": 0}

    run(main)


def test_at_the_end_of_the_timeout_it_is_refused(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        with limiter.admit():
            exchange = await Exchange().run(HardcapMiddleware(never, limiter, timeout=0.05))
        assert exchange.status == 503
        assert limiter.in_flight == 0
        assert limiter.snapshot().totals.rejected == {"requests": 1}

    run(main)


def test_what_need_not_wait_is_not_read_ahead(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        exchange = await Exchange().run(HardcapMiddleware(answers, limiter, timeout=PATIENT))
        assert (exchange.status, exchange.received) == (200, 0)

    run(main)


def test_amounts_wait_too(name: str, segment_dir: Path) -> None:
    with hardcap.open(name, limits={"requests": 9, "tokens": 100}, directory=segment_dir) as limiter:

        async def main() -> None:
            exchange = Exchange()
            permit = limiter.admit(tokens=50)
            app = HardcapMiddleware(answers, limiter, timeout=PATIENT, amount=lambda _: {"requests": 1, "tokens": 60})
            async with waiting(exchange, app):
                permit.release()
            assert exchange.status == 200

        run(main)


# --- clients that leave, and what they sent before -------------------------------------------------------------------


def test_a_client_that_leaves_leaves_the_queue(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        gone, next_one = Arriving(), Exchange()
        permit = limiter.admit()
        gone.arrives(b"a whole request")
        async with waiting(next_one, HardcapMiddleware(answers, limiter, timeout=PATIENT)):
            async with waiting(gone, HardcapMiddleware(never, limiter, timeout=PATIENT)):
                gone.leaves()
            assert gone.sent == []
            permit.release()
        assert next_one.status == 200
        assert limiter.in_flight == 0

    run(main)


def test_a_client_that_leaves_as_it_is_let_in(limiter: hardcap.Limiter) -> None:
    """Whichever is seen first, nothing is held."""

    async def main() -> None:
        for turns in range(20):
            exchange = Arriving()
            permit = limiter.admit()
            async with waiting(exchange, HardcapMiddleware(answers, limiter, timeout=PATIENT)):
                permit.release()
                for _ in range(turns):
                    await asyncio.sleep(0)
                exchange.leaves()
            await until(lambda: limiter.in_flight == 0)

    run(main)


def test_a_request_cancelled_while_it_waits_holds_nothing(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        for released_first in (False, True):
            exchange = Arriving()
            permit = limiter.admit()
            async with waiting(exchange, HardcapMiddleware(never, limiter, timeout=PATIENT)) as task:
                if released_first:
                    permit.release()
                task.cancel()
            assert task.cancelled()
            permit.release()
            await until(lambda: limiter.in_flight == 0)

    run(main)


def test_what_is_read_meanwhile_is_handed_on(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        exchange = Arriving()
        permit = limiter.admit()
        async with waiting(exchange, HardcapMiddleware(reads, limiter, timeout=PATIENT)):
            exchange.arrives(b"read while it waited, ", more=True)
            await until(lambda: exchange.received == 2)
            permit.release()
            await until(lambda: limiter.held == 1)
            exchange.arrives(b"asked for while it waited, ", more=True)
            exchange.arrives(b"read afterwards")
        assert exchange.body == b"read while it waited, asked for while it waited, read afterwards"

    run(main)


def test_a_read_of_the_application_that_is_cancelled_loses_nothing(limiter: hardcap.Limiter) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.01)
        exchange.arrives(b"all of it")
        await reads(scope, receive, send)

    exchange = Arriving()

    async def main() -> None:
        permit = limiter.admit()
        async with waiting(exchange, HardcapMiddleware(app, limiter, timeout=PATIENT)):
            permit.release()
        assert exchange.body == b"all of it"

    run(main)


def test_a_body_is_not_kept_without_bounds(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        exchange = Arriving()
        permit = limiter.admit()
        part = bytes(_KEPT_BYTES // 4)
        async with waiting(exchange, HardcapMiddleware(reads, limiter, timeout=PATIENT)):
            for number in range(20):
                exchange.arrives(part, more=number < 19)
                await asyncio.sleep(0.001)
            assert exchange.received <= 5
            permit.release()
        assert exchange.body == part * 20

    run(main)


def test_a_receive_that_fails_while_it_waits(limiter: hardcap.Limiter) -> None:
    failure = OSError("connection lost")

    async def receive() -> Message:
        raise failure

    async def main() -> None:
        with limiter.admit(), pytest.raises(OSError) as caught:
            await HardcapMiddleware(never, limiter, timeout=PATIENT)(Exchange().scope, receive, Exchange().send)
        assert caught.value is failure
        await until(lambda: limiter.in_flight == 0)

    run(main)


# --- how many wait ---------------------------------------------------------------------------------------------------


def test_beyond_max_waiting_it_is_refused_at_once(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers, limiter, timeout=PATIENT, max_waiting=2)
        exchanges = [Exchange() for _ in range(2)]
        permit = limiter.admit()
        async with waiting(exchanges[0], app), waiting(exchanges[1], app):
            assert (await Exchange().run(app)).status == 503
            permit.release()
        assert [exchange.status for exchange in exchanges] == [200, 200]
        assert (await Exchange().run(app)).status == 200

    run(main)


def test_a_client_that_left_makes_room_for_another_to_wait(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers, limiter, timeout=PATIENT, max_waiting=1)
        with limiter.admit():
            for _ in range(3):
                exchange = Arriving()
                async with waiting(exchange, app):
                    exchange.leaves()

    run(main)


def test_nobody_waits_where_nobody_may(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers, limiter, timeout=PATIENT, max_waiting=0)
        assert (await Exchange().run(app)).status == 200
        with limiter.admit():
            assert (await Exchange().run(app)).status == 503

    run(main)


# --- a segment that is retired meanwhile -----------------------------------------------------------------------------


def test_who_waits_on_a_retired_segment_goes_to_the_new_one(
    limiter: hardcap.Limiter, name: str, segment_dir: Path
) -> None:
    async def main() -> None:
        exchange = Exchange()
        permit = limiter.admit()
        async with waiting(exchange, HardcapMiddleware(answers, limiter, timeout=PATIENT)):
            hardcap.unlink(name, segment_dir, force=True)
        assert exchange.status == 200
        assert hardcap.inspect(name, segment_dir).totals.admitted == 1
        permit.release()

    run(main)
