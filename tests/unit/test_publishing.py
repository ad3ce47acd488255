"""Publishing: a segment has its name when it is complete and attended, or not at all, and leaves no debris."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap import descriptors, layout, locks, publishing
from hardcap.config import Config, Mode
from hardcap.directory import UNTOUCHED
from hardcap.errors import SegmentError
from hardcap.header import Shape
from tests.support.descriptions import second_description
from tests.support.segments import attach

LIMITS = {"requests": 3, "tokens": 10}


@pytest.fixture
def config(name: str, segment_dir: Path) -> Config:
    return Config(name, limits=LIMITS, directory=segment_dir, max_processes=3)


@pytest.fixture
def no_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which O_TMPFILE does not work."""
    real = descriptors.open_description

    def open_description(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(descriptors, "open_description", open_description)


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


@either_way_works
def test_nobody_else_can_open_it_before_it_has_its_mode(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even under its temporary name, by a process with an open umask."""
    modes: list[int] = []
    fchmod, before = os.fchmod, os.umask(0)

    def note(descriptor: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", note)
    try:
        attach(config).close()
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_every_block_is_allocated(config: Config, segment_dir: Path) -> None:
    attach(config).close()
    status = (segment_dir / config.name).stat()
    assert status.st_blocks * 512 >= status.st_size == layout.segment_bytes(3)


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


@either_way_works
@pytest.mark.parametrize("who", ["first", "second", "successor"])
def test_no_descriptor_to_be_had_at_any_step(
    config: Config, segment_dir: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Nothing stays open, and no lock behind it: the next one attaches as if nothing had been."""
    others = [] if who == "first" else [attach(config)]
    if who == "successor":
        others.pop().close()
    for number in range(20):
        before = sorted(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patched:
            patched.setattr(descriptors, "open_description", failing(descriptors.open_description, number))
            try:
                others.append(attach(config))
                break
            except SegmentError as error:
                assert "EMFILE: Too many open files" in str(error)
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert len(os.listdir(segment_dir)) == (who != "first")
    assert number > 4
    for segment in others:
        segment.close()


def failing(function: Callable[..., int], calls: int) -> Callable[..., int]:
    """It works so many times, and then finds no descriptor left."""
    numbers = itertools.count()

    def call(*args: Any, **options: Any) -> int:
        if next(numbers) >= calls:
            raise OSError(errno.EMFILE, "")
        return function(*args, **options)

    return call


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
        hardcap.unlink(config.name, segment_dir)
        assert os.listdir(segment_dir) == []

    def test_what_cannot_be_removed_is_named(self, config: Config, temporary: Path) -> None:
        temporary.mkdir()
        with pytest.raises(SegmentError, match=f"found EISDIR: Is a directory on '{temporary}'") as caught:
            attach(config)
        assert caught.value.remedy == UNTOUCHED
        with pytest.raises(SegmentError, match=os.fspath(temporary)):
            hardcap.unlink(config.name, temporary.parent)
        temporary.rmdir()

    def test_is_nobodys_elses(self, config: Config, segment_dir: Path, temporary: Path) -> None:
        other = segment_dir / ".hardcap-building-other"
        other.write_bytes(b"half")
        attach(config).close()
        assert other.read_bytes() == b"half"


def test_what_comes_to_a_free_name_meanwhile_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, config: Config, segment_dir: Path
) -> None:
    """Nobody has vetted it, so it is not removed as the old segment would be."""
    stranger = segment_dir / config.name
    real = publishing._nameless

    def nameless(*arguments: Any) -> Any:
        stranger.write_text("mine")
        return real(*arguments)

    monkeypatch.setattr(publishing, "_nameless", nameless)
    with pytest.raises(SegmentError, match="EEXIST"):
        attach(config)
    assert stranger.read_text() == "mine"
