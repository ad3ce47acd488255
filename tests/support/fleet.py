"""Workers that reserve, hold and release as fast as they can, and tell an independent witness of what they hold."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import closing
from typing import Final

import hardcap
from bench.witness import Witness

MOST: Final = 2  # units asked for at once
PAUSE: Final = 0.001  # seconds that a unit is held, at most


class Worker:
    """One process's share in the work: random requests until the file ``stop`` is there."""

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
