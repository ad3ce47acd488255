"""Words damaged under limiters that work: an error or a refusal, never a crash or a hang, nor, in strict mode, one
unit more than the highest limit."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

import hardcap
from bench.witness import Witness
from hardcap import layout
from tests.conftest import Spawn
from tests.support.fleet import CREW, LIMITS, Fleet
from tests.support.native import needs_native
from tests.support.oracle import assert_all_free
from tests.support.rounds import rounds
from tests.support.segments import mapped

pytestmark = needs_native

LIVES = 30
CODE = "from tests.support.damage import torment\ntorment(directory, mode, seed, lives, lies=lies)"


@pytest.mark.parametrize("lies", [False, True], ids=["garbage", "lies"])
@pytest.mark.parametrize("mode", hardcap.Mode)
def test_damage_is_an_error_or_a_refusal(spawn: Spawn, segment_dir: Path, mode: hardcap.Mode, lies: bool) -> None:
    child = spawn()
    for rng in rounds(2):
        with rng:
            child.run(CODE, directory=str(segment_dir), mode=mode, seed=rng.origin, lives=LIVES, lies=lies)


def harmless(rng: Random) -> int:
    """A word whose damage stops nobody for good: none of those that count what is in flight."""
    slot = layout.slot(rng.randrange(len(CREW)))
    of_slot = [slot + field for field in (layout.S_STATE, layout.S_PID, layout.S_ADMITTED, layout.S_REFUSED)]
    of_header = [layout.H_HIGH_WATER, layout.H_SWEPT_AT, layout.H_RECOVERED, layout.H_CREATED_AT, layout.H_MODE]
    return rng.choice((*of_slot, *of_header, layout.limit_word(0), layout.limit_word(1)))


def test_a_fleet_goes_on_beneath_it(spawn: Spawn, name: str, segment_dir: Path, seen: Witness) -> None:
    fleet = Fleet(spawn, segment_dir, "strict", lambda backend: name, seen)
    with mapped(segment_dir / name) as words:
        sound = words.tolist()
        for rng in rounds(200):
            number = harmless(rng)
            words[number] = rng.choice((0, 2**31, 2**64 - 1, rng.getrandbits(64) | 2**63))
            time.sleep(0.002)
            words[number] = sound[number]
    fleet.wait_for_all()
    fleet.stop()
    assert seen.peak == LIMITS["requests"]
    with hardcap.open(name, directory=segment_dir) as watcher:
        assert_all_free(watcher, LIMITS["requests"])
