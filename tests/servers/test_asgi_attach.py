"""The ASGI middleware, driven directly: configured by the environment, attached when first needed, attached again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap import layout
from hardcap.asgi import HardcapMiddleware
from hardcap.opening import open_limiter
from tests.support.asgi import Exchange, Gated, directory_locked
from tests.support.damage import mapped
from tests.support.processes import eventually

LIMIT = 4


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path) -> None:
    monkeypatch.setenv("HARDCAP_NAME", name)
    monkeypatch.setenv("HARDCAP_LIMIT", str(LIMIT))
    monkeypatch.setenv("HARDCAP_DIR", os.fspath(segment_dir))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all limiters that the middleware opens in this test, attached or failed."""
    names: list[str] = []

    def counted(config: hardcap.Config) -> hardcap.Limiter:
        names.append(config.name)
        return open_limiter(config)

    monkeypatch.setattr("hardcap.source.open_limiter", counted)
    return names


async def answers(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})


def request(app: Any, path: str = "/", **scope: Any) -> Exchange:
    return asyncio.run(asyncio.wait_for(Exchange(path, **scope).run(app), 60))


def junk(segment_dir: Path, name: str) -> Path:
    """A file that is not ours at the segment's path: attaching is refused as long as it is there."""
    path = segment_dir / name
    path.write_bytes(b"not a segment")
    path.chmod(0o600)
    return path


@contextlib.asynccontextmanager
async def full(app: HardcapMiddleware) -> AsyncIterator[list[Gated]]:
    """As many responses as there may be, each held at its gate until the end at the latest."""
    streams = [Gated() for _ in range(LIMIT)]
    tasks = [asyncio.create_task(stream.run(app)) for stream in streams]
    for stream in streams:
        await stream.waiting.wait()
    yield streams
    for stream in streams:
        stream.gate.set()
    await asyncio.gather(*tasks)


# --- the environment alone -------------------------------------------------------------------------------------------


def test_the_environment_is_enough(name: str, segment_dir: Path) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers)
        async with full(app):
            assert hardcap.inspect(name, segment_dir).resources[0].in_flight == LIMIT
            assert (await Exchange().run(app)).status == 503

    asyncio.run(asyncio.wait_for(main(), 60))
    assert hardcap.inspect(name, segment_dir).resources[0].in_flight == 0


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HARDCAP_LIMIT", "-1"),
        ("HARDCAP_NAME", ".hidden"),
        ("HARDCAP_STATUS", "404"),
        ("HARDCAP_RETRY_AFTER", "-1"),
        ("HARDCAP_EXEMPT", "health"),
        ("HARDCAP_LIMITT", "1"),
    ],
)
def test_a_bad_environment_fails_when_the_middleware_is_made(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(hardcap.ConfigError, match=variable):
        HardcapMiddleware(answers)


def test_no_name_fails_when_the_middleware_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARDCAP_NAME")
    with pytest.raises(hardcap.ConfigError, match="HARDCAP_NAME"):
        HardcapMiddleware(answers)


def test_waiting_is_configured_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers)
        async with full(app) as streams:
            waiting = asyncio.create_task(Exchange().run(app))
            await asyncio.sleep(0.05)
            assert (await Exchange().run(app)).status == 503  # the second would be one too many
            assert not waiting.done()
            for stream in streams:
                stream.gate.set()
            assert (await waiting).status == 200

    monkeypatch.setenv("HARDCAP_TIMEOUT", "60")
    monkeypatch.setenv("HARDCAP_MAX_WAITING", "1")
    asyncio.run(asyncio.wait_for(main(), 60))


def test_arguments_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDCAP_LIMIT", "0")
    monkeypatch.setenv("HARDCAP_STATUS", "429")
    monkeypatch.setenv("HARDCAP_RETRY_AFTER", "7")
    monkeypatch.setenv("HARDCAP_EXEMPT", "/ping")
    app = HardcapMiddleware(answers)
    assert [request(app, path).status for path in ("/ping", "/health", "/")] == [200, 429, 429]
    assert request(app).headers[b"retry-after"] == b"7"
    app = HardcapMiddleware(answers, status=503, retry_after=1.0, exempt=("/health",))  # the defaults, but said
    assert [request(app, path).status for path in ("/ping", "/health")] == [503, 200]
    assert request(app).headers[b"retry-after"] == b"1"


def test_the_environment_is_not_read_beside_a_config_or_a_limiter(
    monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path
) -> None:
    monkeypatch.setenv("HARDCAP_STATUS", "nonsense")
    config = hardcap.Config(name, limit=0, directory=segment_dir)
    assert request(HardcapMiddleware(answers, config=config)).status == 503
    with hardcap.open(config) as limiter:
        assert request(HardcapMiddleware(answers, limiter)).status == 503


# --- attached when first needed, once a process ----------------------------------------------------------------------


def test_b28_what_is_not_counted_does_not_attach(name: str, segment_dir: Path) -> None:
    app = HardcapMiddleware(answers)
    for kind in ("lifespan", "websocket", "tcp"):
        request(app, type=kind)
    assert request(app, "/health").status == 200
    assert not (segment_dir / name).exists()
    assert request(app).status == 200
    assert (segment_dir / name).exists()


def test_two_event_loops_attach_once(attempts: list[str], name: str) -> None:
    app = HardcapMiddleware(answers)
    barrier = threading.Barrier(2)
    statuses: list[int] = []

    async def burst() -> None:
        barrier.wait(60)
        exchanges = await asyncio.gather(*(Exchange().run(app) for _ in range(20)))
        statuses.extend(exchange.status for exchange in exchanges)

    loops = [threading.Thread(target=asyncio.run, args=(burst(),)) for _ in range(2)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(60)
    assert statuses == [200] * 40
    assert attempts == [name]


def test_attaching_does_not_hold_up_the_loop_and_a_cancelled_request_not_the_others(
    attempts: list[str], name: str, segment_dir: Path
) -> None:
    async def main() -> None:
        app = HardcapMiddleware(answers)
        with directory_locked(segment_dir):
            tasks = [asyncio.create_task(Exchange().run(app)) for _ in range(LIMIT + 1)]
            for _ in range(20):  # the loop goes on
                await asyncio.sleep(0.005)
            assert not any(task.done() for task in tasks)
            tasks[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
        assert [exchange.status for exchange in await asyncio.gather(*tasks[1:])] == [200] * LIMIT
        assert attempts == [name]
        assert hardcap.inspect(name, segment_dir).resources[0].in_flight == 0

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_request_waits_for_it_no_longer_than_told(
    caplog: pytest.LogCaptureFixture, attempts: list[str], name: str, segment_dir: Path
) -> None:
    """Somebody is stopped with the directory's lock in hand: nobody queues up behind him for his ten seconds."""

    async def main() -> None:
        app = HardcapMiddleware(answers)
        with directory_locked(segment_dir):
            assert (await Exchange().run(app)).status == 503
        assert "still attaching" in caplog.text
        while (await Exchange().run(app)).status != 200:
            await asyncio.sleep(0.01)
        assert attempts == [name]

    asyncio.run(asyncio.wait_for(main(), 60))


# --- nothing ever runs uncapped --------------------------------------------------------------------------------------


def test_no_attachment_is_503_one_line_and_another_try_each_second(
    caplog: pytest.LogCaptureFixture, attempts: list[str], name: str, segment_dir: Path
) -> None:
    app = HardcapMiddleware(answers, status=429)
    path = junk(segment_dir, name)
    with caplog.at_level(logging.ERROR, "hardcap"):
        refused = [request(app) for _ in range(50)]
    assert {exchange.status for exchange in refused} == {503}
    assert {exchange.received for exchange in refused} == {0}
    lines = [record.getMessage() for record in caplog.records if record.name == "hardcap"]
    assert os.fspath(path) in lines[0]
    assert 1 <= len(lines) <= len(attempts) < 50  # one a second, however slow this machine is
    assert request(app, "/health").status == 200
    path.unlink()
    eventually(lambda: request(app).status == 200, "attached once it can be")


REMOVALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "unlink --force": (lambda path: hardcap.unlink(path.name, path.parent, force=True), "retired by unlink --force"),
    "rm": (os.unlink, "its file removed under its users"),
    "mv": (lambda path: path.rename(path.parent / "elsewhere"), "its file moved away under its users"),
}


@pytest.mark.parametrize(("remove", "found"), REMOVALS.values(), ids=REMOVALS)
def test_b40_a_segment_without_its_name_is_left_for_a_new_one(
    name: str,
    segment_dir: Path,
    caplog: pytest.LogCaptureFixture,
    remove: Callable[[Path], object],
    found: str,
) -> None:
    """B40: at the first refusal, which becomes an admission there; what was taken goes back where it was taken."""

    async def main() -> None:
        app = HardcapMiddleware(answers)
        streams = [Gated() for _ in range(LIMIT)]
        tasks = [asyncio.create_task(stream.run(app)) for stream in streams]
        for stream in streams:
            await stream.waiting.wait()
        with mapped(segment_dir / name) as old:
            remove(segment_dir / name)
            caplog.clear()
            assert [(await Exchange().run(app)).status for _ in range(3)] == [200] * 3
            for stream in streams:
                stream.gate.set()
            await asyncio.gather(*tasks)
            assert [stream.status for stream in streams] == [200] * LIMIT
            assert layout.low(old[layout.global_word(0)]) == layout.low(old[layout.slot_word(0, 0)]) == 0
        snapshot = hardcap.inspect(name, segment_dir)
        assert snapshot.totals.admitted == 3 and snapshot.resources[0].in_flight == 0
        (line,) = [record.getMessage() for record in caplog.records if record.name == "hardcap"]
        assert found in line and line.endswith("open the name again")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_given_limiter_that_is_retired_is_opened_again(name: str, segment_dir: Path) -> None:
    with hardcap.open(name, limit=LIMIT, directory=segment_dir) as limiter:
        app = HardcapMiddleware(answers, limiter)
        assert request(app).status == 200
        hardcap.unlink(name, directory=segment_dir, force=True)
        assert request(app).status == 200
        assert hardcap.inspect(name, segment_dir).totals.admitted == 1
        with pytest.raises(hardcap.SegmentRetired):
            limiter.reserve()


def test_a_closed_limiter_is_never_open(caplog: pytest.LogCaptureFixture, name: str, segment_dir: Path) -> None:
    with hardcap.open(name, limit=LIMIT, directory=segment_dir) as limiter:
        app = HardcapMiddleware(answers, limiter)
        assert request(app).status == 200
    with caplog.at_level(logging.ERROR, "hardcap"):
        assert {request(app).status for _ in range(5)} == {503}
    assert "closed" in caplog.text
