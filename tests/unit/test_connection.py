"""A limiter's connection: what it does when its own descriptor, or the system's, gives out."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hardcap
from hardcap import descriptors, directory, layout, locks, recovery
from hardcap.admission import Admission
from hardcap.connection import Connection
from hardcap.errors import SegmentClosed, SegmentError
from hardcap.segment import Segment
from tests.support.descriptions import second_description
from tests.support.segments import unmap

SLOW: dict[str, Callable[[hardcap.Limiter], object]] = {
    "a refused reserve": lambda limiter: limiter.reserve(9),
    "a refused admit": lambda limiter: limiter.admit(9),
    "snapshot": lambda limiter: limiter.snapshot(),
    "reap": lambda limiter: limiter.reap(),
    "set_limit": lambda limiter: limiter.set_limit(1),
}


@pytest.fixture(params=["strict", "approximate"])
def limiter(request: pytest.FixtureRequest, name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=3, mode=request.param, directory=segment_dir) as limiter:
        segment = limiter._connection.live().segment
        yield limiter
    unmap(segment)


@pytest.fixture
def connection(limiter: hardcap.Limiter) -> Connection:
    return limiter._connection


@pytest.mark.parametrize("call", SLOW.values(), ids=SLOW)
def test_its_descriptor_closed_by_other_code(
    limiter: hardcap.Limiter, connection: Connection, call: Callable[[hardcap.Limiter], object]
) -> None:
    """Every slow path tells, once, and then it is closed; the slot may be another's by now and is not touched."""
    assert limiter.reserve()
    segment = connection.live().segment
    path = Path(segment.path)
    os.close(segment.lock)
    before = path.read_bytes()
    with pytest.raises(SegmentError, match="found the descriptor of its locks closed by other code"):
        call(limiter)
    assert path.read_bytes() == before
    with pytest.raises(SegmentClosed):
        limiter.reserve()


@pytest.mark.parametrize("call", SLOW.values(), ids=SLOW)
def test_the_descriptor_of_its_sweeps_replaced_by_other_code(
    limiter: hardcap.Limiter, connection: Connection, tmp_path: Path, call: Callable[[hardcap.Limiter], object]
) -> None:
    """A lock is free on a stranger's file, whoever lives: by it nobody is taken for dead, and nobody loses a unit."""
    with hardcap.open(limiter.name, directory=Path(connection.path).parent) as holder:
        assert holder.reserve(2)
        sweeper = connection.live().segment.sweeper
        assert sweeper is not None
        with open(tmp_path / "a stranger's", "w+b") as stranger:
            number = os.dup2(stranger.fileno(), sweeper._descriptor)
        with pytest.raises(SegmentError, match="found the descriptor of its locks closed by other code"):
            call(limiter)
        assert (holder.held, holder.in_flight) == (2, 2)
        os.close(number)  # which the limiter has left open


def test_an_attachment_that_fails_leaves_no_slot_taken(
    monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path
) -> None:
    def fail(_segment: Segment, _slot: int) -> Admission:
        raise MemoryError

    with hardcap.open(name, limit=1, directory=segment_dir, max_processes=2) as limiter:
        backend = limiter._connection.backend
        broken = dataclasses.replace(backend, admission=fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                Connection(limiter._connection.config, broken, lambda config: config)
        hardcap.open(name, directory=segment_dir).close()


def test_closed_after_its_descriptor_was(limiter: hardcap.Limiter, connection: Connection) -> None:
    assert limiter.reserve()
    segment = connection.live().segment
    os.close(segment.lock)
    before = Path(segment.path).read_bytes()
    limiter.close()
    assert Path(segment.path).read_bytes() == before


def test_a_sweep_opens_nothing(
    limiter: hardcap.Limiter, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it works with no descriptor left, and as a user who could not open the segment."""

    def reopen(*_args: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with hardcap.open(limiter.name, directory=connection.place.path) as dying:
        assert dying.reserve()
        segment = dying._connection.live().segment
        descriptors.close(segment.lock)  # as its death would
        monkeypatch.setattr(descriptors, "reopen", reopen)
        assert [limiter.reserve() for _ in range(4)] == [True, True, True, False]
        monkeypatch.undo()
    unmap(segment)


def test_a_sweep_in_the_middle_of_a_sweep_does_nothing(connection: Connection) -> None:
    """In one thread: it would share the locks, and give back twice."""
    segment = connection.live().segment
    assert segment.sweeper
    with segment.sweeper.turn() as lock:
        assert lock is not None
        assert recovery.sweep(segment) == recovery.Swept(0, False)
        assert locks.take(lock, layout.REAPER_BYTE)
    with second_description(segment.lock) as other:
        assert not locks.is_taken(other, layout.REAPER_BYTE)


def test_a_refusal_sweeps_when_it_is_due(
    limiter: hardcap.Limiter, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most once in the interval on this segment; and never on the way in."""
    sweeps: list[Segment] = []
    sweep = recovery.sweep

    def counted(segment: Segment) -> recovery.Swept:
        sweeps.append(segment)
        return sweep(segment)

    monkeypatch.setattr(recovery, "SWEEP_INTERVAL", 10**15)
    monkeypatch.setattr(recovery, "sweep", counted)
    connection.live().segment.words.store(layout.H_SWEPT_AT, 0)
    assert [limiter.reserve() for _ in range(3)] == [True] * 3
    assert sweeps == []
    monkeypatch.setattr(recovery, "SWEEP_INTERVAL", 0)
    assert [limiter.reserve() for _ in range(3)] == [False] * 3
    assert len(sweeps) == 3
    monkeypatch.setattr(recovery, "SWEEP_INTERVAL", 10**15)
    assert [limiter.reserve() for _ in range(3)] == [False] * 3
    assert len(sweeps) == 3


def test_a_slot_that_cannot_be_had_leaves_nothing_behind(name: str, segment_dir: Path) -> None:
    with hardcap.open(name, limit=1, max_processes=1, directory=segment_dir) as limiter:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(hardcap.SlotsExhausted):
            hardcap.open(name, directory=segment_dir)
        assert len(os.listdir("/proc/self/fd")) == before
        assert len(limiter.snapshot().processes) == 1


def test_only_a_new_limit_waits_for_the_directorys_lock(
    limiter: hardcap.Limiter, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody opens, replaces or unlinks, and were it for ever: requests are decided all the same."""
    monkeypatch.setattr(directory, "LOCK_PATIENCE", 0.05)
    with connection.place.locked():
        with pytest.raises(SegmentError, match="its lock held by another process"):
            limiter.set_limit(1)
        assert [limiter.reserve() for _ in range(4)] == [True, True, True, False]
        limiter.release(3)
        assert (limiter.limit, limiter.reap()) == (3, 0)
    limiter.set_limit(1)
    assert limiter.limit == 1
