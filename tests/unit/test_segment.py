"""Segments as files: built complete, published in one step, attached to with care, never reused."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardcap import descriptors, layout, locks
from hardcap.config import Config
from hardcap.errors import LayoutMismatch, SegmentError
from hardcap.segment import Segment, closed
from tests.support.descriptions import second_description
from tests.support.namespaces import needs_root
from tests.support.objects import state
from tests.support.segments import attach, unmap

LIMITS = {"requests": 3, "tokens": 10}


@pytest.fixture
def config(name: str, segment_dir: Path) -> Config:
    return Config(name, limits=LIMITS, directory=segment_dir, max_processes=3)


@pytest.fixture
def segment(config: Config) -> Iterator[Segment]:
    segment = attach(config)
    yield segment
    segment.close()
    unmap(segment)


def test_the_locks_are_not_on_the_mapped_description(segment: Segment) -> None:
    """A mapping keeps its description alive in a forked child, and with it a lock."""
    descriptors.close(segment.lock)
    with Path(segment.path).open("rb") as file:
        assert not locks.is_taken(file.fileno(), layout.ATTENDANCE_BYTE)
    assert segment.limits() == LIMITS


def test_who_comes_second_joins(segment: Segment, config: Config) -> None:
    second = attach(config)
    second.words.fetch_add(layout.global_word(0), 1)
    assert segment.words.load(layout.global_word(0)) == 1
    assert second.shape == segment.shape
    assert descriptors.identity(second.lock) == descriptors.identity(segment.lock)
    second.close()


def test_one_that_nobody_attends_is_replaced_by_a_new_file(config: Config, segment_dir: Path) -> None:
    first = attach(config)
    old = os.open(segment_dir / config.name, os.O_RDONLY)
    first.words.store(layout.slot_word(0, 0), 1)
    first.close()
    content = os.pread(old, 1 << 16, 0)
    second = attach(config)
    assert os.fstat(old).st_nlink == 0
    assert os.pread(old, 1 << 16, 0) == content
    assert second.words.load(layout.slot_word(0, 0)) == 0
    os.close(old)
    second.close()


def test_a_limit_in_force_moves_the_version(segment: Segment) -> None:
    segment.words.store(layout.global_word(1), layout.pack(4, 2**32 - 1))
    segment.set_limits({1: 7})
    assert segment.limits() == {"requests": 3, "tokens": 7}
    assert segment.words.load(layout.global_word(0)) == 0
    assert segment.words.load(layout.global_word(1)) == 4
    assert segment.words.load(layout.H_CONFIGURED + 1) == 10
    segment.set_limits({0: 1}, configured=True)
    assert segment.words.load(layout.global_word(0)) == layout.pack(0, 1)
    assert segment.words.load(layout.H_CONFIGURED) == 1


def test_killed_while_it_configured_the_next_opener_does_it_again(segment: Segment, config: Config) -> None:
    segment.words.store(layout.limit_word(0), 5)  # as far as one came that was to configure 5
    second = attach(Config(config.name, limits=LIMITS | {"requests": 5}, directory=config.directory))
    assert second.limits() == {"requests": 5, "tokens": 10}
    assert segment.words.load(layout.H_CONFIGURED) == 5
    second.close()


def test_a_high_water_mark_beyond_the_slots_is_no_reason_to_read_on(segment: Segment) -> None:
    segment.words.store(layout.H_HIGH_WATER, 3)
    assert segment.high_water() == 3
    segment.words.store(layout.H_HIGH_WATER, 4)
    with pytest.raises(SegmentError, match="found a high-water mark of 4, expected at most 3 slots"):
        segment.high_water()


@pytest.mark.parametrize(
    ("flag", "found"), [(1, "it retired by unlink --force"), (2, "its file removed under its users")]
)
def test_the_retired_flag(segment: Segment, flag: int, found: str) -> None:
    assert not segment.end()
    segment.words.store(layout.H_RETIRED, flag)
    assert segment.end() == found


@pytest.mark.parametrize("flag", [3, layout.U64])
def test_a_flag_that_nobody_has_set_ends_nothing(segment: Segment, config: Config, flag: int) -> None:
    """It is damage: whoever comes is refused, so that there is no second cap."""
    segment.words.store(layout.H_RETIRED, flag)
    assert not segment.end()
    with pytest.raises(LayoutMismatch, match=f"flag {flag}"):
        attach(config)


def test_a_file_that_has_no_name_is_retired_for_all(segment: Segment, config: Config) -> None:
    second = attach(config)
    segment.retire_nameless()
    assert not second.end() and second.limits() == LIMITS
    os.unlink(segment.path)
    segment.retire_nameless()
    assert second.words.load(layout.H_RETIRED) == layout.RETIRED_NAMELESS
    assert second.limits() == dict.fromkeys(LIMITS, 0)
    second.close()


def test_by_force_stays_by_force(segment: Segment) -> None:
    segment.words.store(layout.H_RETIRED, layout.RETIRED_BY_FORCE)
    os.unlink(segment.path)
    segment.retire_nameless()
    assert segment.words.load(layout.H_RETIRED) == layout.RETIRED_BY_FORCE


def test_the_lock_closed_by_other_code(segment: Segment) -> None:
    assert segment.is_locked()
    os.close(segment.lock)
    assert not segment.is_locked()


def test_a_closed_limiters_error() -> None:
    assert (
        str(closed("/x/web"))
        == "segment '/x/web': found this limiter closed, expected an open one; open the name again"
    )


def test_joining_waits_for_nobody(segment: Segment, config: Config) -> None:
    """The attendance byte locked for writing: nobody of ours does that without the directory's lock."""
    with second_description(segment.lock) as intruder:
        locks.drop(segment.lock, layout.ATTENDANCE_BYTE)
        assert locks.take(intruder, layout.ATTENDANCE_BYTE)
        with pytest.raises(SegmentError, match="attendance byte locked by other code"):
            attach(config)
    assert locks.take(segment.lock, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK)


@needs_root
def test_a_segment_shared_by_its_directorys_owner(config: Config, segment_dir: Path) -> None:
    attach(config).close()
    path = segment_dir / config.name
    os.chown(path, 65534, 65534)
    before = state(segment_dir)
    with pytest.raises(SegmentError, match=r"found a file of user 65534, .* expected a file of user 0"):
        attach(config)
    assert state(segment_dir) == before
    os.chown(segment_dir, 65534, 65534)
    attach(config).close()


def test_wider_than_asked_for(config: Config, segment_dir: Path) -> None:
    shared = Config(config.name, limits=LIMITS, directory=segment_dir, permissions=0o660)
    first = attach(shared)
    before = state(segment_dir)
    with pytest.raises(SegmentError, match=r"mode 0660, expected mode 0600 or narrower; .*permissions=0o660"):
        attach(config)
    assert state(segment_dir) == before
    attach(shared).close()
    attach(Config(config.name, limits=LIMITS, directory=segment_dir, permissions=0o666)).close()
    first.close()
