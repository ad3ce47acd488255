"""Native and portable workers on one segment, killed and replaced: one cap, and nothing lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import hardcap
from bench.witness import Witness
from tests.conftest import Spawn
from tests.support.fleet import MOST
from tests.support.native import needs_native
from tests.support.oracle import assert_all_free
from tests.support.processes import Child, eventually
from tests.support.rounds import rounds

pytestmark = needs_native

LIMITS = {"requests": 3, "tokens": 5}
CREW = ("native", "atomics", "native", "atomics")
OPEN = "import hardcap\nlimiter = hardcap.open(name, limits=limits, mode=mode, directory=directory, backend=backend)"
WORK = "from tests.support.fleet import work\nwork(limiter, witness, seed, stop)"


class Fleet:
    """Workers by number; each keeps its backend through all its lives."""

    def __init__(self, spawn: Spawn, directory: Path, mode: str, name_of: Callable[[str], str], seen: Witness) -> None:
        self._spawn, self._directory, self._mode, self._name_of, self._seen = spawn, directory, mode, name_of, seen
        self._stop = directory / "stop"
        self._workers = [self._start(backend, seed) for seed, backend in enumerate(CREW)]

    def _start(self, backend: str, seed: int) -> Child:
        child: Child = self._spawn()
        settings = {"limits": LIMITS, "mode": self._mode, "directory": str(self._directory), "backend": backend}
        child.run(OPEN, name=self._name_of(backend), **settings)
        child.post(WORK, witness=str(self._directory / "witness"), seed=seed, stop=str(self._stop))
        return child

    def replace(self, number: int, seed: int) -> None:
        """Kill a worker, whatever it is doing, and start another."""
        self._workers[number].kill()
        self._workers[number] = self._start(CREW[number], seed)

    def wait_for_all(self) -> None:
        """Until each of those alive has been seen with a unit."""
        missing = {child.pid for child in self._workers}

        def all_seen() -> bool:
            missing.difference_update(self._seen.holders())
            return not missing

        eventually(all_seen, "every worker has held a unit")

    def stop(self) -> list[Counter[str]]:
        """What came of the work of those who are left."""
        self._stop.touch()
        tallies = [Counter[str](child.answer()) for child in self._workers]
        for child in self._workers:
            assert child.finish() == 0
        return tallies


@pytest.fixture
def seen(segment_dir: Path) -> Iterator[Witness]:
    with closing(Witness(segment_dir / "witness")) as witness:
        yield witness


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
