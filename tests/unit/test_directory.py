"""The directory of segments: private unless shared on purpose, locked for a bounded time, looked at with care."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hardcap import descriptors
from hardcap import directory as module
from hardcap.directory import Directory, describe, failure, lost_name
from hardcap.errors import SegmentError
from tests.support.namespaces import needs_root
from tests.support.objects import STRANGER


@pytest.fixture
def default(segment_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default directory of this test, not made yet."""
    path = segment_dir / "default"
    monkeypatch.setattr(module, "default_directory", lambda: os.fspath(path))
    return path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_PATIENCE", 0.1)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@needs_root
def test_another_user_cannot_tell_what_became_of_a_name(segment_dir: Path) -> None:
    """One who may not look into the directory any more goes by the file's own count of names."""
    path = segment_dir / "file"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    path.rename(segment_dir / "elsewhere")
    assert lost_name(os.fspath(path), descriptor) == "its file moved away under its users"
    pid = os.fork()
    if not pid:
        os.setuid(STRANGER)
        os._exit(os.getuid() != STRANGER or lost_name(os.fspath(path), descriptor) != "")
    assert os.waitpid(pid, 0)[1] == 0
    (segment_dir / "elsewhere").unlink()
    assert lost_name(os.fspath(path), descriptor) == "its file removed under its users"
    os.close(descriptor)


def test_the_default_is_this_users() -> None:
    place = Directory(None)
    assert place.path == f"/dev/shm/hardcap-{os.geteuid()}"
    assert not place.explicit
    assert place.file("web") == f"{place.path}/web"


def test_a_directory_given_is_made_absolute_at_once(segment_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(segment_dir)
    place = Directory("some/where")
    assert place.path == os.fspath(segment_dir / "some" / "where")
    assert place.explicit


def test_naming_the_default_makes_it_no_other(default: Path) -> None:
    assert not Directory(default).explicit


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_it_is_made_private_whatever_the_umask(default: Path, umask: Callable[[int], int], mask: int) -> None:
    umask(mask)
    with Directory(None).locked(create=True):
        assert mode_of(default) == 0o700
    assert umask(0) == mask


def test_it_is_made_only_when_asked(segment_dir: Path) -> None:
    place = Directory(segment_dir / "absent")
    for look in (place.locked, place.opened):
        with pytest.raises(SegmentError, match="absent': found ENOENT: No such file"), look():
            pass
    assert list(segment_dir.iterdir()) == []


def test_its_parents_are_not_made(segment_dir: Path) -> None:
    with (
        pytest.raises(SegmentError, match=r"ENOENT.*create it first"),
        Directory(segment_dir / "a/b").locked(create=True),
    ):
        pass
    assert list(segment_dir.iterdir()) == []


def test_one_to_be_shared_is_not_made(segment_dir: Path) -> None:
    """Who shares it decides its owner and its mode."""
    place = Directory(segment_dir / "absent", permissions=0o660)
    with pytest.raises(SegmentError, match="found no directory, expected a directory for segments of mode 0660"):
        place.locked(create=True).__enter__()
    assert list(segment_dir.iterdir()) == []


def of_a_stranger(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def readable_by_its_group(path: Path) -> None:
    path.mkdir()
    path.chmod(0o740)


def a_link(path: Path) -> None:
    (path.parent / "target").mkdir(mode=0o700)
    path.symlink_to("target")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("target")


def a_file(path: Path) -> None:
    path.write_bytes(b"")


HOSTILE = [
    pytest.param(of_a_stranger, marks=needs_root),
    open_to_all,
    readable_by_its_group,
    a_link,
    a_dangling_link,
    a_file,
]


@pytest.mark.parametrize("make", HOSTILE)
def test_a_default_directory_that_is_not_private_is_refused(default: Path, make: Callable[[Path], None]) -> None:
    make(default)
    before = (sorted(default.parent.iterdir()), default.lstat())
    for look in (Directory(None).locked(create=True), Directory(None).opened()):
        with pytest.raises(SegmentError, match=f"segment '{default}': found "), look:
            pass
    assert (sorted(default.parent.iterdir()), default.lstat()) == before


@pytest.mark.parametrize("make", [pytest.param(of_a_stranger, marks=needs_root), open_to_all, a_link])
def test_an_explicit_directory_is_its_givers_business(segment_dir: Path, make: Callable[[Path], None]) -> None:
    make(segment_dir / "given")
    with Directory(segment_dir / "given").locked(create=True) as descriptor:
        assert os.fstat(descriptor).st_ino == (segment_dir / "given").stat().st_ino


def test_the_lock_is_waited_for_and_then_given_up(segment_dir: Path, impatient: None) -> None:
    place = Directory(segment_dir)
    with place.locked():
        started = time.monotonic()
        with pytest.raises(SegmentError, match=r"its lock held by another process.*fuser"), place.locked():
            pass
        assert time.monotonic() - started >= 0.1
    with place.locked():
        pass


def test_the_lock_ends_with_the_block(segment_dir: Path, impatient: None) -> None:
    with pytest.raises(LookupError), Directory(segment_dir).locked():
        raise LookupError
    with Directory(segment_dir).locked() as descriptor, Directory(segment_dir).opened() as other:
        assert descriptor != other
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do this between the opening of the directory and its lock."""
    real, todo = fcntl.flock, [action]

    def flock(descriptor: int, operation: int) -> None:
        if todo:
            todo.pop()()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_removed_while_it_was_waited_for(default: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default.mkdir(mode=0o700)
    meanwhile(monkeypatch, default.rmdir)
    with pytest.raises(SegmentError, match=r"removed while it was waited for.*open again"), Directory(None).locked():
        pass


def test_made_anew_while_it_was_waited_for(default: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default.mkdir(mode=0o700)

    def remake() -> None:
        default.rename(default.parent / "old")
        default.mkdir(mode=0o700)

    meanwhile(monkeypatch, remake)
    with Directory(None).locked() as descriptor:
        assert os.fstat(descriptor).st_ino == default.stat().st_ino


def test_replaced_while_it_was_waited_for(default: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is closed twice: its number may be another file's by then."""
    default.mkdir(mode=0o700)

    def replace() -> None:
        default.rename(default.parent / "old")
        default.write_bytes(b"")

    close, closed = descriptors.close, list[int]()

    def note(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(descriptors, "close", note)
    meanwhile(monkeypatch, replace)
    with pytest.raises(SegmentError, match="ENOTDIR"), Directory(None).locked():
        pass
    assert len(closed) == 1


def test_describing_a_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    status = tmp_path.stat()
    assert describe(status) == f"a file of user {status.st_uid}, group {status.st_gid}, mode 0750"


def test_a_failure_names_the_object_its_owner_and_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    error = failure(os.fspath(tmp_path), PermissionError(13, "whatever"), "a segment")
    assert error.found == f"EACCES: Permission denied on a directory of user {os.geteuid()}, mode 0700"
    assert (error.segment, error.expected) == (os.fspath(tmp_path), "a segment")
    assert "permissions=" in error.remedy


def test_a_failure_of_something_else_names_that(tmp_path: Path) -> None:
    """Without /proc no file can be opened again."""
    error = failure(os.fspath(tmp_path), FileNotFoundError(2, "whatever", "/proc/self/fd/7"), "a segment")
    assert error.found == "ENOENT: No such file or directory on '/proc/self/fd/7'"


def test_a_failure_of_what_is_not_there(tmp_path: Path) -> None:
    error = failure(os.fspath(tmp_path / "absent"), OSError(5, "whatever"), "a segment")
    assert (error.found, error.remedy) == ("EIO: Input/output error", "")
