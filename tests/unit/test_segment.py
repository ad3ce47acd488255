"""Segments as files: built complete, published in one step, attached to with care, never reused."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardcap import layout, locks
from hardcap import segment as module
from hardcap.config import Config, Mode
from hardcap.errors import SegmentError, SegmentRetired
from hardcap.header import Shape
from hardcap.segment import Segment, attach, closed
from tests.support.descriptions import second_description
from tests.support.namespaces import needs_root
from tests.support.objects import state

LIMITS = {"requests": 3, "tokens": 10}


@pytest.fixture
def config(name: str, segment_dir: Path) -> Config:
    return Config(name, limits=LIMITS, directory=segment_dir, max_processes=3)


@pytest.fixture
def segment(config: Config) -> Iterator[Segment]:
    segment = attach(config)
    yield segment
    segment.close()


@pytest.fixture
def no_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which O_TMPFILE does not work."""
    real = locks.open_description

    def open_description(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(locks, "open_description", open_description)


@pytest.fixture(params=["unnamed", "temporary"])
def either_way(request: pytest.FixtureRequest) -> None:
    """Files are built in both ways that there are."""
    if request.param == "temporary":
        request.getfixturevalue("no_unnamed_files")


either_way_works = pytest.mark.usefixtures("either_way")


@either_way_works
def test_a_new_segment_is_complete_and_attended(config: Config, segment_dir: Path) -> None:
    segment = attach(config)
    assert os.listdir(segment_dir) == [config.name]
    path = segment_dir / config.name
    assert (segment.path, segment.name) == (os.fspath(path), config.name)
    assert segment.shape == Shape(Mode.strict, ("requests", "tokens"), 3)
    assert segment.limits() == LIMITS
    created_at = segment.words.load(layout.H_CREATED_AT)
    assert path.read_bytes() == layout.initial_image(1, ("requests", "tokens"), (3, 10), 3, created_at)
    with second_description(segment.lock) as other:
        assert locks.is_taken(other, layout.ATTENDANCE_BYTE)
    segment.close()


@either_way_works
@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o666])
def test_its_mode_is_what_was_asked_for(config: Config, segment_dir: Path, umask: int, permissions: int) -> None:
    asked = Config(config.name, limit=1, directory=segment_dir, permissions=permissions)
    before = os.umask(umask)
    try:
        attach(asked).close()
    finally:
        assert os.umask(before) == umask
    assert stat.S_IMODE((segment_dir / config.name).stat().st_mode) == permissions


def test_every_block_is_allocated(segment: Segment) -> None:
    status = os.stat(segment.path)
    assert status.st_blocks * 512 >= status.st_size == layout.segment_bytes(3)


def test_the_locks_are_not_on_the_mapped_description(segment: Segment) -> None:
    """A mapping keeps its description alive in a forked child, and with it a lock."""
    locks.close(segment.lock)
    with Path(segment.path).open("rb") as file:
        assert not locks.is_taken(file.fileno(), layout.ATTENDANCE_BYTE)
    assert segment.limits() == LIMITS


def test_who_comes_second_joins(segment: Segment, config: Config) -> None:
    second = attach(config)
    second.words.fetch_add(layout.global_word(0), 1)
    assert segment.words.load(layout.global_word(0)) == 1
    assert second.shape == segment.shape
    assert locks.identity(second.lock) == locks.identity(segment.lock)
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


@either_way_works
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("step", ["os.fchmod", "os.posix_fallocate", "os.pwrite", "mmap.mmap", "os.link"])
def test_a_failure_at_any_step_leaves_nothing(
    config: Config, segment_dir: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise error(errno.ENOSPC, "")

    with monkeypatch.context() as patched, pytest.raises((SegmentError, KeyboardInterrupt)) as caught:
        patched.setattr(step, fail)
        attach(config)
    if error is OSError:
        assert "ENOSPC: No space left on device" in str(caught.value)
        assert "free space there" in str(caught.value)
    assert list(segment_dir.iterdir()) == []
    attach(config).close()


def test_no_descriptor_to_be_had(config: Config, segment_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> int:
        raise OSError(errno.EMFILE, "")

    with monkeypatch.context() as patched, pytest.raises(SegmentError, match=r"EMFILE.*ulimit -n"):
        patched.setattr(locks, "reopen", fail)
        attach(config)
    assert list(segment_dir.iterdir()) == []


class TestDebris:
    """What a builder that was killed left under its temporary name."""

    @pytest.fixture
    def temporary(self, config: Config, segment_dir: Path) -> Path:
        return segment_dir / f".hardcap-building-{config.name}"

    def test_of_one_killed_before_the_link(self, config: Config, segment_dir: Path, temporary: Path) -> None:
        temporary.write_bytes(b"half")
        attach(config).close()
        assert os.listdir(segment_dir) == [config.name]

    def test_of_one_killed_after_the_link(self, config: Config, segment_dir: Path, temporary: Path) -> None:
        attach(config).close()
        os.link(segment_dir / config.name, temporary)
        attach(config).close()
        assert os.listdir(segment_dir) == [config.name]

    def test_of_one_killed_after_the_link_is_no_obstacle_to_unlink(
        self, config: Config, segment_dir: Path, temporary: Path
    ) -> None:
        attach(config).close()
        os.link(segment_dir / config.name, temporary)
        module.unlink(config.name, segment_dir, force=False)
        assert os.listdir(segment_dir) == []

    def test_is_nobodys_elses(self, config: Config, segment_dir: Path, temporary: Path) -> None:
        other = segment_dir / ".hardcap-building-other"
        other.write_bytes(b"half")
        attach(config).close()
        assert other.read_bytes() == b"half"


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


def test_the_retired_flag(segment: Segment) -> None:
    segment.check_in_use()
    segment.words.store(layout.H_RETIRED, 1)
    with pytest.raises(SegmentRetired):
        segment.check_in_use()


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
        with pytest.raises(SegmentError, match="attendance byte locked for writing"):
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
