"""Native and portable workers on one segment, killed and replaced: one cap, and nothing lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import hardcap
from bench.witness import Witness
from tests.conftest import Spawn
from tests.support.fleet import CREW, LIMITS, MOST, Fleet
from tests.support.native import needs_native
from tests.support.oracle import assert_all_free
from tests.support.processes import eventually
from tests.support.rounds import rounds

pytestmark = needs_native


@pytest.mark.parametrize("mode", hardcap.Mode)
def test_one_cap_whatever_dies(spawn: Spawn, name: str, segment_dir: Path, seen: Witness, mode: hardcap.Mode) -> None:
    fleet = Fleet(spawn, segment_dir, mode, lambda backend: name, seen)
    kills = 0
    for rng in rounds(5):
        time.sleep(rng.uniform(0, 0.1))
        fleet.replace(rng.randrange(len(CREW)), rng.origin)
        kills += 1
    with hardcap.open(name, directory=segment_dir) as watcher:
        fleet.wait_for_all()
        assert all(tally["admitted"] and tally.keys() <= {"admitted", "refused"} for tally in fleet.stop())
        more = 0 if mode is hardcap.Mode.strict else (len(CREW) - 1) * MOST
        assert LIMITS["requests"] <= seen.peak <= LIMITS["requests"] + more
        assert_all_free(watcher, LIMITS["requests"])
        assert [one.in_flight for one in watcher.snapshot().resources] == [0, 0]
        watcher.reap()
        assert watcher.snapshot().totals.recovered_owners == kills + len(CREW)  # who ends by itself is a dead owner too


def test_two_caps_are_seen(spawn: Spawn, name: str, segment_dir: Path, seen: Witness) -> None:
    """Control: where each backend has a segment of its own, the witness counts too many."""
    fleet = Fleet(spawn, segment_dir, "strict", lambda backend: f"{name}-{backend}", seen)
    eventually(lambda: seen.peak > LIMITS["requests"], "more than one cap allows")
    fleet.stop()
