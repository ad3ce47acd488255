"""A segment whose name is gone, or leads elsewhere: noticed at refusals, sweeps and snapshots, and told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import warnings

Notice = Callable[[hardcap.Limiter], object]

REMOVED = "its file removed under its users"


def refused(limiter: hardcap.Limiter) -> None:
    with pytest.raises(hardcap.SegmentRetired):
        limiter.reserve(9)


def refused_permit(limiter: hardcap.Limiter) -> None:
    with pytest.raises(hardcap.SegmentRetired):
        limiter.admit(9)


def refused_limit(limiter: hardcap.Limiter) -> None:
    with pytest.raises(hardcap.SegmentRetired):
        limiter.set_limit(9)


NOTICES: dict[str, Notice] = {
    "reserve": refused,
    "admit": refused_permit,
    "set_limit": refused_limit,
    "reap": lambda limiter: limiter.reap(),
    "snapshot": lambda limiter: limiter.snapshot(),
}
each_notice = pytest.mark.parametrize("notice", NOTICES.values(), ids=NOTICES)


@each_notice
def test_b40_removed_under_two_who_are_told_when_a_third_has_come(
    opened: Open, segment_dir: Path, notice: Notice, caplog: pytest.LogCaptureFixture
) -> None:
    """B40: whoever notices tells all others, so that the orphan admits no more; what was taken goes back there."""
    one, other = opened(limit=3), opened(limit=3)
    permit = other.admit(2)
    (segment_dir / one.name).unlink()
    third = opened(limit=3)
    assert third.reserve(3)
    for _ in range(2):
        notice(one)
    expected = f"segment '{segment_dir / one.name}': found {REMOVED}, expected a segment in use; open the name again"
    assert warnings(caplog) == [expected]
    for _ in range(2):
        with pytest.raises(hardcap.SegmentRetired, match=REMOVED):
            other.reserve()
    assert warnings(caplog) == [expected] * 2, "once by each"
    assert (other.held, other.in_flight) == (2, 2)
    assert permit.release() and other.in_flight == 0
    third.release(3)
    assert_all_free(third, 3)


def moved_away(path: Path) -> None:
    path.rename(path.parent / "elsewhere")


def behind_a_link(path: Path) -> None:
    moved_away(path)
    path.symlink_to("elsewhere")


def junk_in_its_place(path: Path) -> None:
    moved_away(path)
    path.write_bytes(b"not a segment")


LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "rm": (os.unlink, REMOVED),
    "mv": (moved_away, "its file moved away under its users"),
    "a link": (behind_a_link, "a symbolic link in the place of its own"),
    "a file": (junk_in_its_place, "a file in the place of its own"),
}


@pytest.mark.parametrize(("lose", "found"), LOSSES.values(), ids=LOSSES)
def test_what_became_of_the_name(
    limiter: hardcap.Limiter, segment_dir: Path, lose: Callable[[Path], object], found: str
) -> None:
    assert limiter.reserve()
    lose(segment_dir / limiter.name)
    (finding,) = limiter.verify()
    assert (finding.invariant, finding.found, finding.remedy) == ("FILE", found, "open the name again")
    assert limiter.reserve(), "the way in asks nobody, as long as there is room"
    with pytest.raises(hardcap.SegmentRetired, match=found):
        limiter.reserve(2)
    limiter.release(2)


def test_moved_away_and_back(limiter: hardcap.Limiter, segment_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else was told, since the file might have been somebody's to find; so all is as before."""
    path = segment_dir / limiter.name
    moved_away(path)
    refused(limiter)
    (segment_dir / "elsewhere").rename(path)
    assert_all_free(limiter, 3)
    assert len([text for text in warnings(caplog) if "moved away" in text]) == 1


def test_its_whole_directory_moved_away(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    """Nobody can make a second cap there: one goes on, until somebody has made the directory anew."""
    elsewhere = segment_dir.with_name(f"{segment_dir.name}-elsewhere")
    segment_dir.rename(elsewhere)
    try:
        assert not limiter.reserve(9)
        assert limiter.verify() == []
        segment_dir.mkdir(mode=0o700)
        refused(limiter)
        segment_dir.rmdir()
    finally:
        elsewhere.rename(segment_dir)


def test_unlink_by_force_is_logged_once_by_who_is_refused(
    limiter: hardcap.Limiter, segment_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hardcap.unlink(limiter.name, segment_dir, force=True)
    caplog.clear()
    limiter.snapshot()
    for _ in range(3):
        refused(limiter)
    (line,) = warnings(caplog)
    assert "found it retired by unlink --force" in line
