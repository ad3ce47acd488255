"""Refusal after refusal: what the ASGI middleware leaves out for 2 ms, and what it never does."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

import hardcap
from hardcap import source
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import LAST, START, Exchange, sends

APP = sends(START, LAST)


@pytest.fixture(autouse=True)
def an_endless_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once refused, for good."""
    monkeypatch.setattr(source, "_FLOOD_SECONDS", math.inf)


def status(middleware: HardcapMiddleware) -> int:
    return asyncio.run(Exchange().run(middleware)).status


def test_each_refusal_is_counted_and_a_free_unit_is_had_at_once(segment_dir: Path) -> None:
    with hardcap.open("flood", limit=1, directory=segment_dir) as limiter:
        middleware = HardcapMiddleware(APP, limiter)
        limiter.reserve()
        assert [status(middleware) for _ in range(3)] == [503] * 3
        assert limiter.snapshot().totals.rejected == {"requests": 3}
        limiter.release()
        assert status(middleware) == 200
        assert limiter.in_flight == 0


def test_a_dry_run_refuses_nothing(segment_dir: Path) -> None:
    with hardcap.open("flood", limit=0, directory=segment_dir, enforce=False) as limiter:
        middleware = HardcapMiddleware(APP, limiter)
        assert [status(middleware) for _ in range(3)] == [200] * 3
        assert limiter.snapshot().totals.rejected == {"requests": 3}


def test_who_closes_the_limiter_is_seen(segment_dir: Path) -> None:
    limiter = hardcap.open("flood", limit=0, directory=segment_dir)
    middleware = HardcapMiddleware(APP, limiter)
    assert status(middleware) == 503
    limiter.close()
    exchange = asyncio.run(Exchange().run(middleware))
    assert b"unavailable" in exchange.body


def test_only_an_endless_flood_never_looks(segment_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with a flood of no length the removed segment is noticed by the next refusal, and opened anew."""
    for seconds, noticed in ((math.inf, False), (0.0, True)):
        monkeypatch.setattr(source, "_FLOOD_SECONDS", seconds)
        name = f"flood-{noticed}".lower()
        config = hardcap.Config(name, limit=1, directory=segment_dir)
        middleware = HardcapMiddleware(APP, config=config)
        with hardcap.open(config) as holder:
            holder.reserve()
            assert status(middleware) == 503
            (segment_dir / name).unlink()
            assert (status(middleware) == 200) is noticed
