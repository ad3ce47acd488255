"""Kernel locks: they prove life and death, through a descriptor that no child keeps."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardcap import descriptors, locks
from tests.conftest import Spawn
from tests.support.descriptions import second_description
from tests.support.processes import Child, eventually

BYTE = 1 << 40


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "file").write_bytes(b"content")
    return os.fspath(tmp_path / "file")


@pytest.fixture
def first(path: str) -> Iterator[int]:
    descriptor = descriptors.open_description(path, os.O_RDWR)
    yield descriptor
    descriptors.close(descriptor)


@pytest.fixture
def second(first: int) -> Iterator[int]:
    with second_description(first) as descriptor:
        yield descriptor


def test_a_lock_keeps_every_other_description_out(first: int, second: int) -> None:
    assert locks.take(first, BYTE)
    assert locks.take(first, BYTE), "one's own lock is no obstacle"
    assert not locks.take(second, BYTE)
    assert not locks.take(second, BYTE, fcntl.F_RDLCK)
    assert locks.take(second, BYTE + 1)
    locks.drop(first, BYTE)
    assert locks.take(second, BYTE)


def test_readers_share(first: int, second: int) -> None:
    assert locks.take(first, BYTE, fcntl.F_RDLCK)
    assert locks.take(second, BYTE, fcntl.F_RDLCK)
    assert not locks.take(second, BYTE), "a writer needs it alone"
    locks.drop(first, BYTE)
    assert locks.take(second, BYTE)


def test_asking_takes_nothing_and_needs_no_right_to_write(first: int, second: int) -> None:
    with_reading_only = descriptors.reopen(first, os.O_RDONLY)
    assert not locks.is_taken(with_reading_only, BYTE)
    assert locks.take(first, BYTE)
    assert locks.is_taken(with_reading_only, BYTE)
    assert locks.is_taken(second, BYTE)
    assert not locks.is_taken(first, BYTE), "one's own lock is not seen"
    assert not locks.is_taken(second, BYTE + 1)
    descriptors.close(with_reading_only)


def test_any_other_failure_is_raised(path: str) -> None:
    descriptor = descriptors.open_description(path, os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        locks.take(descriptor, BYTE)
    descriptors.close(descriptor)


def test_a_second_description_drops_its_locks_with_itself(first: int) -> None:
    with pytest.raises(LookupError), second_description(first) as second:
        assert second != first
        assert descriptors.identity(second) == descriptors.identity(first)
        assert locks.take(second, BYTE)
        raise LookupError
    assert not locks.is_taken(first, BYTE)


def test_a_file_without_a_name_can_be_opened_again(first: int, path: str) -> None:
    os.unlink(path)
    with second_description(first) as second:
        assert os.pread(second, 7, 0) == b"content"


def test_ours_until_it_is_closed(path: str) -> None:
    descriptor = descriptors.open_description(path, os.O_RDWR)
    assert descriptors.is_ours(descriptor)
    descriptors.close(descriptor)
    assert not descriptors.is_ours(descriptor)
    descriptors.close(descriptor)
    assert not descriptors.is_ours(-1)
    descriptors.close(-1)


def test_a_descriptor_closed_behind_our_back_is_not_closed_again(path: str, tmp_path: Path) -> None:
    descriptor = descriptors.open_description(path, os.O_RDWR)
    stranger = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    assert not descriptors.is_ours(descriptor)
    os.dup2(stranger, descriptor)  # the number now is another file's
    assert not descriptors.is_ours(descriptor)
    descriptors.close(descriptor)
    os.fstat(descriptor)
    os.close(descriptor)
    os.close(stranger)


HOLDER = f"""
import os, signal
from hardcap import descriptors, locks
descriptor = descriptors.open_description(path, os.O_RDWR) if through_us else os.open(path, os.O_RDWR)
def fork():
    child = os.fork()
    if child == 0:
        signal.pause()
    return child
locks.take(descriptor, {BYTE})
"""


def holder(spawn: Spawn, path: str, *, through_us: bool = True) -> Child:
    child = spawn()
    assert child.run(HOLDER, path=path, through_us=through_us)
    return child


@pytest.mark.parametrize("reap", [True, False])
def test_the_lock_of_a_killed_process_is_free(spawn: Spawn, first: int, path: str, reap: bool) -> None:
    child = holder(spawn, path)
    assert locks.is_taken(first, BYTE)
    child.kill(reap=reap)
    eventually(lambda: locks.take(first, BYTE), "the kernel drops it")


def test_a_stopped_process_keeps_its_lock(spawn: Spawn, first: int, path: str) -> None:
    child = holder(spawn, path)
    child.stop()
    assert not locks.take(first, BYTE)


def test_a_program_started_by_exec_keeps_nothing(spawn: Spawn, first: int, path: str) -> None:
    child = holder(spawn, path)
    child.post("os.execlp('sleep', 'sleep', '1000')")
    eventually(lambda: locks.take(first, BYTE), "the descriptor closes on exec")
    assert child.process.poll() is None


@pytest.mark.parametrize("through_us", [True, False])
def test_a_forked_child_keeps_nothing(spawn: Spawn, first: int, path: str, through_us: bool) -> None:
    """An ordinary descriptor, which the child inherits, shows that the child is there to keep it."""
    child = holder(spawn, path, through_us=through_us)
    grandchild = child.run("fork()")
    child.kill()
    if through_us:
        eventually(lambda: locks.take(first, BYTE), "nobody has it any more")
    assert locks.is_taken(first, BYTE) is not through_us
    os.kill(grandchild, 0)


def test_a_fork_closes_only_what_the_child_inherits(spawn: Spawn, first: int, path: str) -> None:
    child = holder(spawn, path)
    child.run("fork()")
    assert locks.is_taken(first, BYTE)
    assert child.run("descriptors.is_ours(descriptor)")
