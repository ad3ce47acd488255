"""Verification while processes work, come and die: no false alarm, and what is really broken is found all the same."""

from __future__ import annotations

from pathlib import Path

import hardcap
from bench.witness import Witness
from hardcap import layout
from tests.conftest import Spawn
from tests.support.processes import eventually
from tests.support.survivors import Survivors

ROUNDS = 12


def test_no_false_alarm_under_load(
    spawn: Spawn, attached: Spawn, name: str, segment_dir: Path, mode: str, seen: Witness
) -> None:
    workers = Survivors(spawn, segment_dir, mode, seen)
    workers.work(name)
    for number in range(ROUNDS):
        if number % 4 == 0:  # and one that dies while it holds, in a slot of its own
            victim = attached()
            victim.run("limiter.reserve()")
            victim.kill()
        with hardcap.open(name, directory=segment_dir) as limiter:  # claims a slot, and leaves it
            assert limiter.verify() == hardcap.verify(name, segment_dir) == []
    workers.stop()
    assert hardcap.verify(name, segment_dir) == []


def test_a_unit_lost_under_load_is_found(spawn: Spawn, name: str, segment_dir: Path, seen: Witness) -> None:
    """Control: one more is counted than anybody holds, while all of them change it."""
    workers = Survivors(spawn, segment_dir, "strict", seen)
    workers.work(name)
    with hardcap.open(name, directory=segment_dir) as limiter:
        limiter._connection.live().segment.words.fetch_add(layout.global_word(0), 1 + layout.HIGH_ONE)
        eventually(lambda: [one.invariant for one in limiter.verify()] == ["I4"], "the lost unit is found")
        limiter._connection.live().segment.words.fetch_add(layout.global_word(0), layout.HIGH_ONE - 1)
        assert limiter.verify() == []
    workers.stop()
