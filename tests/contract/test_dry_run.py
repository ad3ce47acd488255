"""``enforce=False``: counts, and never refuses but what would overflow a word."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import in_flight

MOST = 2**31 - 1


def test_every_call_is_admitted_and_those_over_the_limit_are_counted(opened: Open) -> None:
    limiter = opened(limit=1, enforce=False)
    assert all(limiter.reserve() for _ in range(3))
    permits = [limiter.admit(), limiter.admit(timeout=None), asyncio.run(limiter.admit_async(timeout=60))]
    totals = limiter.snapshot().totals
    assert (limiter.in_flight, limiter.available) == (6, 0)
    assert (totals.admitted, totals.rejected) == (6, {"requests": 5})
    limiter.release(3)
    assert all(permit.release() for permit in permits)
    assert limiter.in_flight == 0


def test_headroom_is_not_kept_free(opened: Open) -> None:
    limiter = opened(limits={"requests": 2, "tokens": 2}, enforce=False)
    with limiter.admit(1, tokens=1, headroom=2) as permit:
        assert permit.adjust(tokens=5)
        assert in_flight(limiter) == {"requests": 1, "tokens": 5}
    assert limiter.snapshot().totals.rejected == {"requests": 1, "tokens": 1}


def test_others_are_refused_as_ever(opened: Open) -> None:
    """It is a setting of one process, not of the segment."""
    watching, strict = opened(limit=1, enforce=False), opened(limit=1, enforce=True)
    assert watching.reserve(3)
    assert not strict.reserve()
    watching.release(3)
    assert_all_free(strict, 1)


def test_what_would_overflow_is_refused(opened: Open) -> None:
    limiter = opened(limit=1, enforce=False)
    assert limiter.reserve(MOST)
    assert limiter.reserve(MOST)
    assert not limiter.reserve(2)
    with pytest.raises(hardcap.CapExceeded):
        limiter.admit(2)
    assert limiter.reserve(1)
    assert limiter.in_flight == 2**32 - 1
    limiter.release(MOST)
    limiter.release(MOST)
    limiter.release(1)
    assert limiter.in_flight == 0


def test_a_retired_segment_is_told(opened: Open, segment_dir: Path) -> None:
    limiter = opened(limit=1, enforce=False)
    hardcap.unlink(limiter.name, segment_dir, force=True)
    with pytest.raises(hardcap.SegmentRetired):
        limiter.reserve()
    with pytest.raises(hardcap.SegmentRetired):
        limiter.admit(timeout=1)
