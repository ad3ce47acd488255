"""Verification: nothing to say of a sound segment, and a finding for each invariant that a word breaks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hardcap
from hardcap import layout, verification
from hardcap.layout import pack
from hardcap.words import PlainWords
from tests.contract.conftest import Open
from tests.support.backends import BACKENDS
from tests.support.namespaces import needs_root
from tests.support.segments import mapped

GARBAGE = layout.U64
FREE_SLOT = 2  # was used once
UNUSED_SLOT = 3
NEVER_JUDGED = {layout.H_SWEPT_AT, layout.slot(FREE_SLOT) + layout.S_PID}  # a time in the future counts as long ago


@pytest.fixture
def limiter(opened: Open) -> hardcap.Limiter:
    """In a segment of four slots, two of them in use: three units of five held, and two refusals."""
    limits = {"requests": 5, "tokens": 10}
    limiter, other = (opened(limits=limits, max_processes=UNUSED_SLOT + 1) for _ in range(2))
    opened().close()
    assert limiter.reserve(2, tokens=1) and other.reserve(1, tokens=3)
    assert not limiter.reserve(3) and not other.reserve(tokens=7)
    limiter.release(1)
    return limiter


@pytest.fixture
def words(limiter: hardcap.Limiter, segment_dir: Path) -> Iterator[memoryview]:
    """The segment's words, sound again at the end, so that the limiters can leave it."""
    with mapped(segment_dir / limiter.name) as words:
        sound = words.tolist()
        yield words
        for number, word in enumerate(sound):
            words[number] = word


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else runs here: what is broken stays so."""
    monkeypatch.setattr(verification, "PAUSE", 0)
    monkeypatch.setattr(verification, "LOOKS", 2)


def broken(limiter: hardcap.Limiter) -> list[tuple[str, str]]:
    return [(finding.invariant, finding.where) for finding in limiter.verify()]


def test_a_sound_segment(limiter: hardcap.Limiter, words: memoryview, segment_dir: Path) -> None:
    before = words.tolist()
    assert limiter.verify() == hardcap.verify(limiter.name, segment_dir) == []
    assert words.tolist() == before


def test_every_word_is_judged(
    limiter: hardcap.Limiter, words: memoryview, segment_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage in any word of the file is named, by who is attached and by who is not."""
    monkeypatch.setattr(verification, "LOOKS", 1)
    fields = {*range(layout.H_SWEPT_AT + 1), *range(layout.resource(0), layout.slot(UNUSED_SLOT) + 1)}
    for number in sorted({*fields, *range(0, len(words), 37), len(words) - 1}):
        sound = words[number]
        words[number] = GARBAGE
        silent = not limiter.verify()
        if number != layout.H_MAGIC:
            assert silent is not bool(hardcap.verify(limiter.name, segment_dir))
        assert silent == (number in NEVER_JUDGED), f"word {number}"
        words[number] = sound
    assert limiter.verify() == []


LIES = {
    "version": (layout.H_VERSION, 2, "HEADER", "file"),
    "flag": (layout.H_RETIRED, 3, "HEADER", "file"),
    "retired": (layout.H_RETIRED, 1, "FILE", "file"),
    "one resource fewer": (layout.H_RESOURCES, 1, "HEADER", "file"),
    "mark": (layout.H_HIGH_WATER, 5, "MARK", "header"),
    "mark too low": (layout.H_HIGH_WATER, FREE_SLOT, "MARK", f"slot {FREE_SLOT}"),
    "limit": (layout.limit_word(1), layout.MAX_LIMIT + 1, "LIMIT", "resource 'tokens'"),
    "state": (layout.slot(0), 2, "SLOT", "slot 0"),
    "units in a free slot": (layout.slot_word(FREE_SLOT, 1), 1, "SLOT", f"slot {FREE_SLOT}"),
    "a slot never used": (layout.slot(UNUSED_SLOT) + layout.S_PID, 1, "MARK", f"slot {UNUSED_SLOT}"),
    "no pid": (layout.slot(1) + layout.S_PID, 0, "SLOT", "slot 1"),
    "held below 0": (layout.slot_word(0, 0), pack(-1, 0), "I3", "slot 0"),
    "pending below 0": (layout.slot_word(0, 0), pack(1, -1), "I3", "slot 0"),
    "fewer calls than before": (layout.slot(0) + layout.S_BASELINE, 9, "TOTALS", "slot 0"),
    "another resource's word": (layout.slot_word(0, 2), 1, "UNUSED", "slot 0"),
    "behind the last slot": (layout.slot(UNUSED_SLOT + 1), 1, "UNUSED", "behind the slots"),
}


def test_somebody_who_waits_is_no_finding(limiter: hardcap.Limiter, words: memoryview) -> None:
    """The bell stays set as long as nobody makes room; it is nothing but set or not."""
    limiter._connection.arm_bell()
    assert words[layout.BELL] == 1
    assert limiter.verify() == []
    words[layout.BELL] = 2
    assert broken(limiter) == [("UNUSED", "resource 0")]


@pytest.mark.parametrize(("word", "lie", "invariant", "where"), LIES.values(), ids=LIES)
def test_what_is_broken(
    limiter: hardcap.Limiter, words: memoryview, word: int, lie: int, invariant: str, where: str
) -> None:
    words[word] = lie
    assert (invariant, where) in broken(limiter)


# --- strict mode, which counts everything twice ----------------------------------------------------------------------


@pytest.fixture(params=BACKENDS)
def strict(request: pytest.FixtureRequest, name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    """Three units of five held."""
    with hardcap.open(name, limit=5, backend=request.param, directory=segment_dir) as limiter:
        assert limiter.reserve(3)
        yield limiter


COUNTS = {"below 0": (-1, "I3"), "a unit too few": (2, "I1"), "a unit too many": (4, "I4")}


@pytest.mark.parametrize(("count", "invariant"), COUNTS.values(), ids=COUNTS)
def test_a_count_that_the_slots_contradict(
    strict: hardcap.Limiter, segment_dir: Path, count: int, invariant: str
) -> None:
    with mapped(segment_dir / strict.name) as words:
        words[layout.global_word(0)] = pack(count, 7)
        assert (invariant, "resource 'requests'") in broken(strict)
        words[layout.global_word(0)] = pack(3, 8)
    assert strict.verify() == []


@pytest.mark.parametrize("word", [pack(3, 2), pack(1, 2), pack(0, 3)])
def test_a_change_under_way_is_no_finding(strict: hardcap.Limiter, segment_dir: Path, word: int) -> None:
    """Announced and not counted yet, or counted and not confirmed: a process may be stopped there for any time."""
    with mapped(segment_dir / strict.name) as words:
        words[layout.slot_word(0, 0)] = word
        assert strict.verify() == []
        words[layout.slot_word(0, 0)] = pack(3, 0)


def test_a_count_that_never_stands_still_is_not_judged(
    strict: hardcap.Limiter, segment_dir: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather nothing than a false alarm, and the log says so."""

    class Moving(PlainWords):
        def column(self, first: int, count: int, step: int) -> Iterable[int]:
            memory[layout.global_word(0)] += layout.HIGH_ONE
            return super().column(first, count, step)

    monkeypatch.setattr("hardcap.viewing.PlainWords", Moving)
    monkeypatch.setattr(verification, "PATIENCE", 0.05)
    with mapped(segment_dir / strict.name) as memory:
        memory[layout.global_word(0)] += 1
        assert strict.verify() == []
        assert "resource 'requests' changed without a pause, its count was not verified" in caplog.text
        memory[layout.global_word(0)] -= 1


# --- looking again ---------------------------------------------------------------------------------------------------


def test_what_is_found_once_and_not_again_is_no_finding(
    limiter: hardcap.Limiter, words: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read while it was being written, as it seems."""
    words[layout.slot(0)] = 2
    assert broken(limiter)

    def mend(seconds: float) -> None:
        words[layout.slot(0)] = pack(1, 1)

    monkeypatch.setattr(time, "sleep", mend)
    assert limiter.verify() == []


def test_the_words_of_a_finding(limiter: hardcap.Limiter, words: memoryview) -> None:
    words[layout.limit_word(0)] = layout.U64
    (finding,) = limiter.verify()
    assert str(finding) == (
        f"LIMIT: resource 'requests': found a limit of {layout.U64}, expected at most 2147483647; "
        "set_limit: until then it refuses all that is asked for"
    )
    limiter.set_limit(5)
    assert limiter.verify() == []


# --- the file --------------------------------------------------------------------------------------------------------


def test_what_the_next_opener_would_refuse(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    path = segment_dir / limiter.name
    path.chmod(0o644)
    (finding,) = limiter.verify()
    assert (finding.invariant, finding.expected) == ("FILE", "mode 0600 or narrower")
    path.chmod(0o600)
    os.link(path, segment_dir / "second")
    (finding,) = limiter.verify()
    assert (finding.invariant, finding.found) == ("FILE", "a file with 2 links")
    with pytest.raises(hardcap.SegmentError, match="2 links"):
        hardcap.verify(limiter.name, segment_dir)
    (segment_dir / "second").unlink()
    assert limiter.verify() == []


@needs_root
def test_a_strangers_file(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    os.chown(segment_dir / limiter.name, 65534, -1)
    (finding,) = limiter.verify()
    assert finding.invariant == "FILE" and "user 65534" in finding.found


def test_another_size(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    """Larger, since a smaller file cannot be used any more by those who have it mapped."""
    path = segment_dir / limiter.name
    size = path.stat().st_size
    os.truncate(path, size + 1)
    (finding,) = limiter.verify()
    assert finding.invariant == "HEADER" and f"size {size + 1}" in finding.found
    assert [finding] == hardcap.verify(limiter.name, segment_dir)
    os.truncate(path, size)
    assert limiter.verify() == []


def test_no_segment(name: str, segment_dir: Path) -> None:
    with pytest.raises(hardcap.SegmentError, match="found nothing"):
        hardcap.verify(name, segment_dir)
    (segment_dir / name).write_bytes(b"something else")
    with pytest.raises(hardcap.SegmentError):
        hardcap.verify(name, segment_dir)
    with pytest.raises(hardcap.ConfigError):
        hardcap.verify("../x", segment_dir)


def test_closed(limiter: hardcap.Limiter) -> None:
    limiter.close()
    with pytest.raises(hardcap.SegmentClosed):
        limiter.verify()
