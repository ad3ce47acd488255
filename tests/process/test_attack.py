"""A segment under attack while four processes work on it: whoever comes is refused, and the cap holds."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import hardcap
from bench.witness import Witness
from hardcap import layout
from tests.conftest import Spawn
from tests.support.fleet import LIMITS
from tests.support.objects import HOSTILE, STRANGER, a_strangers_file, state
from tests.support.oracle import assert_all_free
from tests.support.rounds import rounds
from tests.support.segments import directory_locked, mapped
from tests.support.survivors import MOST_AT_ONCE, Survivors

MOMENT = 0.03  # seconds of work under each attack
OBJECTS = [*filter(callable, HOSTILE), *([a_strangers_file] if os.geteuid() == 0 else [])]


@pytest.fixture
def workers(spawn: Spawn, segment_dir: Path, mode: str, seen: Witness) -> Survivors:
    return Survivors(spawn, segment_dir, mode, seen)


Visit = Callable[[str, Path], object]
VISITS: dict[str, Visit] = {
    "open": lambda name, directory: hardcap.open(name, limits=LIMITS, directory=directory).close(),
    "open approximate": lambda name, directory: hardcap.open(
        name, limits=LIMITS, mode="approximate", directory=directory
    ).close(),
    "unlink": hardcap.unlink,
}


def marks(path: Path) -> tuple[int, ...]:
    """What cannot change while others work on it."""
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_size


def assert_refused(path: Path, *more: Visit) -> None:
    """Whoever comes gets an error that names the file, and leaves it as it is."""
    before = marks(path)
    for visit in (*VISITS.values(), *more):
        with pytest.raises(hardcap.SegmentError, match=f"segment '{path}': found "):
            visit(path.name, path.parent)
    assert marks(path) == before


def clear(path: Path) -> None:
    """Remove whatever stands there, and what came with it."""
    for one in (path, path.parent / "target", path.parent / "second"):
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


def test_hostile_objects_in_its_place(
    workers: Survivors, name: str, segment_dir: Path, mode: str, seen: Witness
) -> None:
    """Moved away, with one object after the other under its name. Who is refused leaves it, and is not let in."""
    path, aside = segment_dir / name, segment_dir / "aside"
    workers.work(name)
    with directory_locked(segment_dir):  # so that nobody finds the name free in between
        path.rename(aside)
        path.mkdir()
    for make in OBJECTS:
        with directory_locked(segment_dir):
            clear(path)
            make(path)
        before = state(segment_dir)[os.fspath(path)]
        assert_refused(path, hardcap.inspect, hardcap.verify)
        time.sleep(MOMENT)
        assert state(segment_dir)[os.fspath(path)] == before
    with directory_locked(segment_dir):
        clear(path)
        aside.rename(path)
    workers.wait_for_all()
    tallies, _ = workers.stop()
    total = sum(tallies, Counter[str]())
    assert total["retired"] and total["not attached"], "somebody has noticed"
    assert total.keys() == {"admitted", "refused", "retired", "not attached"}
    assert LIMITS["requests"] <= seen.peak <= MOST_AT_ONCE[mode]
    with hardcap.open(name, limits=LIMITS, mode=mode, directory=segment_dir) as limiter:
        assert limiter.verify() == []
        assert_all_free(limiter, LIMITS["requests"])


def put(path: Path, word: int, value: int) -> None:
    with mapped(path) as words:
        words[word] = value


SPOILT: dict[str, Callable[[Path], object]] = {
    "another version": lambda path: put(path, layout.H_VERSION, 2),
    "another size in the header": lambda path: put(path, layout.H_FILE_BYTES, 1),
    "no mode": lambda path: put(path, layout.H_MODE, 0),
    "more slots": lambda path: put(path, layout.H_SLOTS, 4096),
    "no name of a resource": lambda path: put(path, layout.H_NAMES, 0),
    "no magic": lambda path: put(path, layout.H_MAGIC, 0),
    "a flag that nobody set": lambda path: put(path, layout.H_RETIRED, 3),
    "a larger file": lambda path: os.truncate(path, path.stat().st_size + layout.HEADER_BYTES),
    "readable by all": lambda path: path.chmod(0o644),
    "a second link": lambda path: os.link(path, path.parent / "second"),
    **({"another owner": lambda path: os.chown(path, STRANGER, STRANGER)} if os.geteuid() == 0 else {}),
}


def heal(path: Path, size: int, sound: list[int]) -> None:
    """Give the file its place, its attributes, and the header's fields that are written once."""
    (path.parent / "second").unlink(missing_ok=True)
    os.chown(path, os.geteuid(), os.getegid())
    path.chmod(0o600)
    os.truncate(path, size)
    with mapped(path) as words:
        for number, word in enumerate(sound):
            words[number] = word


def test_spoilt_where_it_stands(workers: Survivors, name: str, segment_dir: Path, mode: str, seen: Witness) -> None:
    """Whoever comes is refused; those who are there go on, on the one cap they have."""
    path = segment_dir / name
    workers.work(name)
    size = path.stat().st_size
    with mapped(path) as words:
        sound = words.tolist()[: layout.H_HIGH_WATER]
    for spoil in SPOILT.values():
        with directory_locked(segment_dir):
            spoil(path)
        assert_refused(path)
        workers.wait_for_all()
        with directory_locked(segment_dir):
            heal(path, size, sound)
        assert hardcap.verify(name, segment_dir) == []
    tallies, _ = workers.stop()
    assert sum(tallies, Counter[str]()).keys() == {"admitted", "refused"}, "none has noticed"
    assert LIMITS["requests"] <= seen.peak <= MOST_AT_ONCE[mode]
    with hardcap.open(name, limits=LIMITS, mode=mode, directory=segment_dir) as limiter:
        assert_all_free(limiter, LIMITS["requests"])


def random_words(rng: random.Random, count: int) -> list[int]:
    """Numbers of words: half of them of the fields that are read all the time."""
    slots = [layout.slot(slot) + field for slot in range(8) for field in range(layout.S_BASELINE)]
    fields = [layout.global_word(0), layout.limit_word(0), layout.H_HIGH_WATER, layout.H_SWEPT_AT, layout.H_RETIRED]
    return [rng.choice((rng.choice(fields), rng.choice(slots), rng.randrange(count))) for _ in range(rng.randint(1, 6))]


def remove_if_not_ours(path: Path) -> None:
    """As the error says: what has lost its magic is nobody's to replace."""
    if path.read_bytes()[: layout.WORD] != layout.MAGIC.to_bytes(layout.WORD, "little"):
        path.unlink()


def verified(name: str, directory: Path) -> list[object]:
    """What is broken, or the refusal to look at it."""
    try:
        return [*hardcap.verify(name, directory)]
    except hardcap.SegmentError as error:
        return [error]


@pytest.mark.parametrize("mode", ["strict"])
def test_random_bytes_anywhere(workers: Survivors, name: str, segment_dir: Path, seen: Witness) -> None:
    """Words of 64 random bits never let in one more than the limit, and nobody crashes or hangs because of them."""
    named = 0
    for rng in rounds(6):
        with rng:
            place = f"{name}-{rng.origin}"
            workers.work(place)
            with mapped(segment_dir / place) as words:
                for number in random_words(rng, len(words)):
                    words[number] = rng.getrandbits(64)
                    time.sleep(rng.random() * MOMENT)
            named += len(verified(place, segment_dir))
            workers.stop()
            assert seen.peak == LIMITS["requests"]
            remove_if_not_ours(segment_dir / place)
            with hardcap.open(place, limits=LIMITS, directory=segment_dir) as limiter:
                assert_all_free(limiter, LIMITS["requests"])
    assert named


@pytest.mark.parametrize("size", [0, 2 * layout.HEADER_BYTES])
def test_b40_truncated_by_its_owner(
    workers: Survivors, name: str, segment_dir: Path, mode: str, seen: Witness, size: int
) -> None:
    """B40: the documented bus error to those whose memory is gone, and nothing but that; whoever comes is refused."""
    path = segment_dir / name
    workers.work(name)
    for child in workers.children:
        child.stop()
    os.truncate(path, size)
    assert_refused(path, hardcap.inspect)
    for child in workers.children:
        child.resume()
    time.sleep(MOMENT)
    workers.tell_to_stop()
    ends = [child.finish() for child in workers.children]
    in_reach = size >= layout.slot(4) * layout.WORD
    assert set(ends) == ({0} if in_reach else {-signal.SIGBUS})
    assert seen.peak <= MOST_AT_ONCE[mode]
    remove_if_not_ours(path)
    with hardcap.open(name, limits=LIMITS, mode=mode, directory=segment_dir) as limiter:
        assert_all_free(limiter, LIMITS["requests"])


@pytest.mark.parametrize("size", [0, layout.HEADER_BYTES])
def test_a_truncated_segment_can_be_verified(attached: Spawn, name: str, segment_dir: Path, size: int) -> None:
    """By who has it mapped: nothing of the memory is touched."""
    child = attached(limit=3)
    child.run("limiter.reserve()")
    os.truncate(segment_dir / name, size)
    assert child.run("[finding.invariant for finding in limiter.verify()]") == ["HEADER"]
