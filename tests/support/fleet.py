"""Workers that reserve, hold and release as fast as they can, and tell an independent witness of what they hold."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import hardcap
from bench.witness import Witness
from tests.support.processes import Child, eventually

LIMITS: Final = {"requests": 3, "tokens": 5}
CREW: Final = ("native", "atomics", "native", "atomics")
MOST: Final = 2  # units asked for at once
PAUSE: Final = 0.001  # seconds that a unit is held, at most

_OPEN: Final = "import hardcap\nlimiter = hardcap.open(name, **settings)"
_WORK: Final = "from tests.support.fleet import work\nwork(limiter, witness, seed, stop)"


class Worker:
    """One process's share in the work: random requests until the file ``stop`` is there, or the segment retired."""

    def __init__(self, limiter: hardcap.Limiter, witness: Witness, seed: int) -> None:
        self._limiter = limiter
        self._witness = witness
        self._random = random.Random(seed)
        self.tally: Counter[str] = Counter()

    def work(self, stop: str) -> None:
        while not os.path.exists(stop):
            try:
                self._random.choice((self._bare, self._permit))()
            except hardcap.CapExceeded:
                self.tally["refused"] += 1
            except hardcap.SegmentRetired:
                self.tally["retired"] += 1
                return
            except hardcap.SegmentError as error:  # the segment is damaged, where a test does so
                self.tally[type(error).__name__] += 1
            except hardcap.ReleaseError:
                self.tally["released too much"] += 1
            time.sleep(self._random.random() * PAUSE)  # the portable ones get their turn beside the native ones

    def _bare(self) -> None:
        units, tokens = self._random.randint(1, MOST), self._random.randint(0, MOST)
        if not self._limiter.reserve(units, tokens=tokens, headroom=self._random.choice((0, 0, 0, 1))):
            self.tally["refused"] += 1
            return
        self._hold(units)
        self._limiter.release(units, tokens=tokens)

    def _permit(self) -> None:
        units = self._random.randint(1, MOST)
        with self._limiter.admit(units):
            self._hold(units)

    def _hold(self, units: int) -> None:
        """Counted after the reservation and until before the release, so never more than there are."""
        self.tally["admitted"] += 1
        tokens = [self._witness.enter() for _ in range(units)]
        time.sleep(self._random.random() * PAUSE)
        for token in tokens:
            self._witness.leave(token)


def work(limiter: hardcap.Limiter, witness: str, seed: int, stop: str) -> Counter[str]:
    """Work until told to stop; what came of it."""
    with closing(Witness(witness)) as seen:
        worker = Worker(limiter, seen, seed)
        worker.work(stop)
    return worker.tally


def wait_until_each_holds(workers: Sequence[Child], seen: Witness) -> None:
    """Until each has been seen with a unit, from now on."""
    missing = {child.pid for child in workers}

    def all_seen() -> bool:
        missing.difference_update(seen.holders())
        return not missing

    eventually(all_seen, "every worker has held a unit")


class Fleet:
    """Workers by number; each keeps its backend through all its lives."""

    def __init__(
        self, spawn: Callable[[], Child], directory: Path, mode: str, name_of: Callable[[str], str], seen: Witness
    ) -> None:
        self._spawn, self._directory, self._mode, self._name_of, self._seen = spawn, directory, mode, name_of, seen
        self._stop = directory / "stop"
        self._workers = [self._start(backend, seed) for seed, backend in enumerate(CREW)]

    def _start(self, backend: str, seed: int) -> Child:
        child = self._spawn()
        settings = {"limits": LIMITS, "mode": self._mode, "directory": str(self._directory), "backend": backend}
        child.run(_OPEN, name=self._name_of(backend), settings=settings)
        child.post(_WORK, witness=str(self._directory / "witness"), seed=seed, stop=str(self._stop))
        return child

    def replace(self, number: int, seed: int) -> None:
        """Kill a worker, whatever it is doing, and start another."""
        self._workers[number].kill()
        self._workers[number] = self._start(CREW[number], seed)

    def wait_for_all(self) -> None:
        """Until each of those alive has been seen with a unit."""
        wait_until_each_holds(self._workers, self._seen)

    def stop(self) -> list[Counter[str]]:
        """What came of the work of those who are left."""
        self._stop.touch()
        tallies = [Counter[str](child.answer()) for child in self._workers]
        for child in self._workers:
            assert child.finish() == 0
        return tallies
