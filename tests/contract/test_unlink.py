"""Removing a segment: never under its users, unless forced, and then they are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import warnings


def test_refused_while_somebody_is_attached(limiter: hardcap.Limiter, opened: Open, segment_dir: Path) -> None:
    other = opened()
    other.close()
    with pytest.raises(hardcap.SegmentError, match="found processes attached to it, expected nobody; stop them first"):
        hardcap.unlink(limiter.name, segment_dir)
    assert opened().in_flight == 0
    assert_all_free(limiter, 3)


@pytest.mark.parametrize("force", [False, True])
def test_done_when_nobody_is_attached(
    limiter: hardcap.Limiter, segment_dir: Path, caplog: pytest.LogCaptureFixture, force: bool
) -> None:
    limiter.close()
    hardcap.unlink(limiter.name, os.fspath(segment_dir), force=force)
    assert list(segment_dir.iterdir()) == []
    assert warnings(caplog) == []


@pytest.mark.parametrize("force", [False, True])
def test_nothing_to_remove(name: str, segment_dir: Path, force: bool) -> None:
    with pytest.raises(hardcap.SegmentError, match="found nothing, expected a segment"):
        hardcap.unlink(name, segment_dir, force=force)
    with pytest.raises(hardcap.SegmentError):
        hardcap.unlink(name, segment_dir / "absent", force=force)
    with pytest.raises(hardcap.ConfigError, match="name is"):
        hardcap.unlink(".", segment_dir, force=force)
    assert list(segment_dir.iterdir()) == []


def test_forced_under_its_users(
    limiter: hardcap.Limiter, opened: Open, segment_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    permit = limiter.admit()
    assert limiter.reserve()
    hardcap.unlink(limiter.name, segment_dir, force=True)
    assert list(segment_dir.iterdir()) == []
    assert f"{limiter.name}' is retired under its users" in "".join(warnings(caplog))
    for _ in range(2):
        with pytest.raises(hardcap.SegmentRetired, match=r"retired by unlink --force, .*; open the name again"):
            limiter.reserve()
        with pytest.raises(hardcap.SegmentRetired):
            limiter.admit()
    with pytest.raises(hardcap.SegmentRetired):
        limiter.set_limit(3)
    fresh = opened(limit=3)
    assert_all_free(fresh, 3)
    assert (limiter.in_flight, limiter.held, limiter.limit) == (2, 2, 0)
    assert permit.release()
    limiter.release()
    assert (limiter.in_flight, fresh.in_flight) == (0, 0)


def test_a_retired_segment_is_no_obstacle_for_the_next(
    limiter: hardcap.Limiter, opened: Open, segment_dir: Path
) -> None:
    hardcap.unlink(limiter.name, segment_dir, force=True)
    fresh = opened(limit=5)
    assert fresh.reserve(5)
    limiter.close()
    assert fresh.in_flight == 5
    with pytest.raises(hardcap.SegmentError, match="attached"):
        hardcap.unlink(limiter.name, segment_dir)


def test_the_name_alone_after_a_forced_removal(limiter: hardcap.Limiter, opened: Open, segment_dir: Path) -> None:
    hardcap.unlink(limiter.name, segment_dir, force=True)
    with pytest.raises(hardcap.ConfigError, match="there is no segment"):
        opened(mode=None)
