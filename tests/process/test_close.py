"""Closing and interpreter exit: no noise, no crash, and no exception in the place of another."""

from __future__ import annotations

from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free

STRICTEST = {"flags": ["-X", "dev"]}

EXITS = {
    "open limiter, open permits": "permits = [limiter.admit(), limiter.admit()]",
    "permit in a knot": "knot = [limiter.admit()]\nknot.append(knot)",
    "closed twice": "limiter.reserve()\nlimiter.close()\nlimiter.close()",
    "closed under a permit": "permit = limiter.admit()\nlimiter.close()",
    "closed at exit": "import atexit\nlimiter.reserve()\natexit.register(limiter.close)\nNone",
    "daemon thread inside": """
import threading, time
def cycle():
    while True:
        if limiter.reserve():
            limiter.release()
for _ in range(3):
    threading.Thread(target=cycle, daemon=True).start()
time.sleep(0.05)""",
    "second limiter of the name": "other = hardcap.open(name, directory=directory)\nother.reserve()",
    "failed construction": """
for wrong in ({"limit": -1}, {"limit": 1, "mode": "loose"}, {"limits": {"x": 1}}):
    try:
        hardcap.open(name, directory=directory, **wrong)
    except hardcap.HardcapError:
        pass
    else:
        raise AssertionError(wrong)""",
}


@pytest.mark.parametrize("way", EXITS)
def test_exit_is_silent(attached: Spawn, name: str, segment_dir: Path, mode: str, way: str) -> None:
    """B48: exit status 0 and an empty stderr, also under ``-W error -X dev``; what was held comes back."""
    child = attached(limit=4, mode=mode, options=STRICTEST)
    with hardcap.open(name, directory=segment_dir) as observer:
        child.run(EXITS[way])
        assert child.finish() == 0
        assert child.stderr == ""
        assert_all_free(observer, 4)


def test_the_original_exception_is_preserved(segment_dir: Path, name: str, mode: str, backend: str) -> None:
    """B48: neither a permit nor a limiter puts its own in the place of the one that came through."""
    with (
        pytest.raises(LookupError, match="mine"),
        hardcap.open(name, limit=1, mode=mode, backend=backend, directory=segment_dir) as limiter,
        limiter.admit(),
    ):
        limiter.close()
        raise LookupError("mine")
