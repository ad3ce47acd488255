"""Whatever stands at a segment's path and is none of ours, or no longer what it was: refused, left untouched."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hardcap
from hardcap import descriptors, layout, locks
from hardcap.config import Config
from hardcap.errors import ConfigError, LayoutMismatch, SegmentError
from tests.support.objects import HOSTILE, Make, state
from tests.support.segments import attach

SECONDS = 2.0  # within which a refusal is promised

Visit = Callable[[str, Path], object]
VISITS: dict[str, Visit] = {
    "open": lambda name, directory: hardcap.open(name, limit=1, directory=directory),
    "open approximate": lambda name, directory: hardcap.open(name, limit=1, mode="approximate", directory=directory),
    "open by name": lambda name, directory: hardcap.open(name, directory=directory),
    "inspect": hardcap.inspect,
    "unlink": hardcap.unlink,
    "unlink by force": lambda name, directory: hardcap.unlink(name, directory, force=True),
}
each_visit = pytest.mark.parametrize("visit", VISITS.values(), ids=VISITS)


@pytest.fixture
def config(name: str, segment_dir: Path) -> Config:
    return Config(name, limits={"requests": 3, "tokens": 10}, directory=segment_dir)


@pytest.fixture
def path(config: Config, segment_dir: Path) -> Path:
    """A segment that nobody attends."""
    attach(config).close()
    return segment_dir / config.name


@pytest.fixture
def attended(path: Path) -> Iterator[int]:
    """The same, attended."""
    descriptor = descriptors.open_description(os.fspath(path), os.O_RDWR)
    assert locks.take(descriptor, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK)
    yield descriptor
    descriptors.close(descriptor)


def put(path: Path, word: int, *values: int) -> None:
    with path.open("r+b") as file:
        file.seek(word * layout.WORD)
        file.write(struct.pack(f"<{len(values)}Q", *values))


def refused(visit: Visit, path: Path, kind: type[SegmentError] = SegmentError) -> str:
    """The text of the error; raised in time, with nothing changed."""
    before, started = state(path.parent), time.monotonic()
    with pytest.raises(kind) as caught:
        visit(path.name, path.parent)
    assert time.monotonic() - started < SECONDS
    assert state(path.parent) == before
    return str(caught.value)


@each_visit
@pytest.mark.parametrize("make", HOSTILE)
def test_an_object_that_is_not_ours(name: str, segment_dir: Path, make: Make, visit: Visit) -> None:
    path = segment_dir / name
    make(path)
    assert refused(visit, path).startswith(f"segment '{path}': found ")


def with_a_second_link(path: Path) -> None:
    os.link(path, path.parent / "second")


def behind_a_symbolic_link(path: Path) -> None:
    path.rename(path.parent / "real")
    path.symlink_to("real")


def with_a_directory_in_its_place(path: Path) -> None:
    path.rename(path.parent / "real")
    path.mkdir()


@each_visit
@pytest.mark.parametrize("spoil", [with_a_second_link, behind_a_symbolic_link, with_a_directory_in_its_place])
def test_a_segment_that_is_not_where_it_was_made(path: Path, spoil: Make, visit: Visit) -> None:
    """A good one, but reached in a way that somebody else may have prepared."""
    spoil(path)
    refused(visit, path)


DAMAGE = {
    "size": (layout.H_FILE_BYTES, 40961),
    "no mode": (layout.H_MODE, 0),
    "unknown mode": (layout.H_MODE, 3),
    "no resources": (layout.H_RESOURCES, 0),
    "five resources": (layout.H_RESOURCES, 5),
    "any number of resources": (layout.H_RESOURCES, layout.U64),
    "one resource more": (layout.H_RESOURCES, 3),
    "no slots": (layout.H_SLOTS, 0),
    "more slots than fit": (layout.H_SLOTS, 200),
    "any number of slots": (layout.H_SLOTS, layout.U64),
    "limit": (layout.H_CONFIGURED, 2**31),
    "capital name": (layout.H_NAMES, int.from_bytes(b"Requests", "little")),
    "empty name": (layout.H_NAMES, 0),
    "zeros inside a name": (layout.H_NAMES, int.from_bytes(b"re\0uests", "little")),
    "one name twice": (layout.H_NAMES, int.from_bytes(b"tokens\0\0", "little")),
    "bytes that are no text": (layout.H_NAMES, layout.U64),
}
damaged = pytest.mark.parametrize(("word", "value"), DAMAGE.values(), ids=DAMAGE)


@damaged
def test_a_damaged_header_while_somebody_is_attached(
    config: Config, path: Path, attended: int, word: int, value: int
) -> None:
    put(path, word, value)
    for visit in ("open", "open by name", "inspect"):
        text = refused(VISITS[visit], path, LayoutMismatch)
        assert "found a damaged header (" in text
    refused(hardcap.unlink, path)


@damaged
def test_a_damaged_header_when_nobody_is(config: Config, path: Path, word: int, value: int) -> None:
    put(path, word, value)
    refused(VISITS["open by name"], path, LayoutMismatch)
    segment = attach(config)
    assert segment.limits() == {"requests": 3, "tokens": 10}
    segment.close()


@pytest.mark.parametrize("size", [layout.HEADER_BYTES, 40959, 40961, 2**20])
def test_a_file_of_another_size_is_never_mapped(path: Path, attended: int, size: int) -> None:
    os.truncate(path, size)
    for visit in ("open", "open by name", "inspect"):
        refused(VISITS[visit], path, LayoutMismatch)


@pytest.mark.parametrize("version", [0, 2, layout.U64])
class TestAnotherLayoutVersion:
    """Whatever else it says, and wherever: of it only the magic, the version, the flag and the locks are known."""

    @pytest.fixture(autouse=True)
    def other_version(self, path: Path, version: int) -> None:
        put(path, layout.H_VERSION, version)
        put(path, layout.H_FILE_BYTES, *([layout.U64] * 29))

    def test_attended(self, path: Path, attended: int, version: int) -> None:
        for visit in ("open", "open by name", "inspect"):
            text = refused(VISITS[visit], path, LayoutMismatch)
            assert f"found layout version {version}, expected version 1" in text
        refused(hardcap.unlink, path)

    def test_not_attended_it_is_replaced(self, config: Config, path: Path, version: int) -> None:
        refused(VISITS["open by name"], path, LayoutMismatch)
        attach(config).close()
        assert path.read_bytes()[8:16] == (1).to_bytes(8, "little")

    def test_not_attended_it_can_be_removed(self, path: Path) -> None:
        hardcap.unlink(path.name, path.parent)
        assert not path.exists()

    def test_attended_it_is_retired_by_force(self, path: Path, attended: int) -> None:
        before = path.read_bytes()
        hardcap.unlink(path.name, path.parent, force=True)
        after = os.pread(attended, 1 << 20, 0)
        assert after == before[:16] + (1).to_bytes(8, "little") + before[24:]
        assert not path.exists()

    def test_retired_it_is_replaced(self, config: Config, path: Path, attended: int) -> None:
        put(path, layout.H_RETIRED, 1)
        attach(config).close()
        assert os.fstat(attended).st_nlink == 0


def test_killed_between_the_flag_and_the_removal_of_the_name(config: Config, path: Path, attended: int) -> None:
    """Retired, and still there under its name: no obstacle to who opens it, with or without a configuration."""
    put(path, layout.H_RETIRED, 1)
    attach(Config(config.name, directory=config.directory)).close()
    assert os.fstat(attended).st_nlink == 0
    assert os.pread(attended, 8, layout.H_RETIRED * 8) == (1).to_bytes(8, "little")


def test_the_name_alone_reports_what_is_not_there(segment_dir: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="there is no segment"):
        hardcap.open(name, directory=segment_dir)


@pytest.mark.parametrize(
    ("step", "visit"),
    [("os.unlink", "unlink"), ("mmap.mmap", "inspect"), ("os.pread", "open")],
)
def test_a_refusal_of_the_system_is_an_error_of_ours(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, visit: str
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError(errno.EIO, "")

    with monkeypatch.context() as patched, pytest.raises(SegmentError, match="EIO: Input/output error"):
        patched.setattr(step, fail)
        VISITS[visit](path.name, path.parent)
    assert path.exists()
