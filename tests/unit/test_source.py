"""A middleware's source under another request's steps: who finds no limiter asks again once there may be one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

import hardcap
from hardcap.permit import Permit
from hardcap.source import Source

WAYS: dict[str, Callable[[Source], Permit | None]] = {
    "admit": lambda source: source.admit(1),
    "admit_async": lambda source: asyncio.run(source.admit_async(1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_who_comes_just_before_another_has_attached_is_admitted(
    monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path, way: str
) -> None:
    source = Source(None, hardcap.Config(name, limit=1, directory=segment_dir))
    look = source._attempt_under_way

    def look_too_late() -> Future[None] | None:
        """Another request's attempt began, and is over, since this one found no limiter."""
        attempt = look()
        assert attempt
        attempt.result(60)
        return look()

    monkeypatch.setattr(source, "_attempt_under_way", look_too_late)
    permit = WAYS[way](source)
    assert permit and permit.release()
