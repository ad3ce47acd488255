"""What a limiter shows, in short: what is in flight, what is held, that nothing changed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import pytest

import hardcap


def in_flight(limiter: hardcap.Limiter) -> dict[str, int]:
    """Units in flight, by resource."""
    return {resource.name: resource.in_flight for resource in limiter.snapshot().resources}


def owner(limiter: hardcap.Limiter) -> hardcap.ProcessSnapshot:
    """The only owner there is."""
    (process,) = limiter.snapshot().processes
    return process


@contextlib.contextmanager
def nothing_changes(limiter: hardcap.Limiter) -> Iterator[None]:
    """No figure of the segment is another one after the block."""
    before = limiter.snapshot()
    yield
    assert limiter.snapshot() == before


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings logged, to hardcap's logger and no other."""
    assert {record.name for record in caplog.records} <= {"hardcap"}
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
