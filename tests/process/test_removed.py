"""The name of a segment removed or given away under four processes that work on it: they all move, and say so once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hardcap
from bench.witness import Witness
from hardcap import layout
from hardcap.layout import low
from tests.conftest import Spawn
from tests.support.fleet import LIMITS
from tests.support.oracle import assert_all_free
from tests.support.processes import eventually
from tests.support.segments import directory_locked, mapped
from tests.support.survivors import MOST_AT_ONCE, SLOTS, WORKERS, Survivors

Remove = Callable[[Path], object]


def unlinked_by_force(path: Path) -> None:
    hardcap.unlink(path.name, path.parent, force=True)


def replaced(path: Path) -> None:
    """By another segment, which nobody attends."""
    other = path.parent / "other"
    hardcap.open(other.name, limits=LIMITS, directory=path.parent).close()
    with directory_locked(path.parent):
        other.rename(path)


REMOVALS: dict[Remove, str] = {
    unlinked_by_force: "it retired by unlink --force",
    os.unlink: "its file removed under its users",
    replaced: "its file removed under its users",
}


def test_b40_under_load(spawn: Spawn, name: str, segment_dir: Path, mode: str, seen: Witness) -> None:
    """B40: two caps while both are in use, and no more; all end up on the new one, and the old is left empty."""
    workers = Survivors(spawn, segment_dir, mode, seen)
    for number, (remove, found) in enumerate(REMOVALS.items()):
        path = segment_dir / f"{name}-{number}"
        workers.work(path.name)
        with mapped(path) as old:
            remove(path)
            eventually(lambda path=path: owners(path) == WORKERS, "all have opened the new one")  # type: ignore[misc]
            tallies, logs = workers.stop()
            assert_left(old, mode)
        assert [tally["retired"] for tally in tallies] == [1] * WORKERS
        assert all(tally.keys() <= {"admitted", "refused", "retired"} for tally in tallies)
        line = f"segment '{path}': found {found}, expected a segment in use; open the name again"
        assert [[text for text in log if "is full" not in text] for log in logs] == [[line]] * WORKERS
        with hardcap.open(path.name, limits=LIMITS, mode=mode, directory=segment_dir) as limiter:
            assert_all_free(limiter, LIMITS["requests"])
    assert LIMITS["requests"] <= seen.peak <= 2 * MOST_AT_ONCE[mode]


def assert_left(old: memoryview, mode: str) -> None:
    """Every permit was given back where it was taken."""
    assert not any(old[layout.slot_word(slot, index)] for slot in range(SLOTS) for index in range(len(LIMITS)))
    assert mode == "approximate" or [low(old[layout.global_word(index)]) for index in range(len(LIMITS))] == [0, 0]


def owners(path: Path) -> int:
    try:
        return len(hardcap.inspect(path.name, path.parent).processes)
    except hardcap.SegmentError:  # removed, and not there again yet
        return 0
