"""Four workers that go on whatever becomes of their segment: retired, they open the name again, as a middleware does.

What they hold an independent witness counts.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import hardcap
from bench.witness import Witness
from tests.support.backends import BACKENDS
from tests.support.fleet import LIMITS, MOST, Worker, wait_until_each_holds
from tests.support.processes import Child

WORKERS: Final = 4
SLOTS: Final = 32
MOST_AT_ONCE: Final = {"strict": LIMITS["requests"], "approximate": LIMITS["requests"] + (WORKERS - 1) * MOST}

_WORK: Final = "from tests.support.survivors import survive\nsurvive(name, settings, witness, seed, stop)"


class _Kept(logging.Handler):
    """In the place of the last resort, which would write to stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def survive(name: str, settings: dict[str, Any], witness: str, seed: int, stop: str) -> tuple[Counter[str], list[str]]:
    """Work until told to stop, on one segment after the other: what came of it, and what hardcap logged."""
    log, tally = _Kept(), Counter[str]()
    logging.getLogger("hardcap").addHandler(log)
    with closing(Witness(witness)) as seen:
        while not os.path.exists(stop):
            try:
                limiter = hardcap.open(name, **settings)
            except hardcap.SegmentError:
                tally["not attached"] += 1
                time.sleep(0.002)
                continue
            with limiter:
                worker = Worker(limiter, seen, seed)
                worker.work(stop)
            tally += worker.tally
    logging.getLogger("hardcap").removeHandler(log)
    return tally, log.lines


class Survivors:
    """The workers on the segment ``name``, each of a backend in turn, until ``stop``; then they may work on another."""

    def __init__(self, spawn: Callable[[], Child], directory: Path, mode: str, seen: Witness) -> None:
        self._directory, self._mode, self._seen = directory, mode, seen
        self.backends = list(islice(cycle(BACKENDS), WORKERS))
        self.children = [spawn() for _ in self.backends]

    def work(self, name: str) -> None:
        """Begin, and wait until each has held a unit."""
        self._stop = self._directory / f"stop-{name}"
        settings = {"limits": LIMITS, "mode": self._mode, "directory": str(self._directory), "max_processes": SLOTS}
        for seed, (child, backend) in enumerate(zip(self.children, self.backends, strict=True)):
            variables = {"name": name, "settings": settings | {"backend": backend}, "seed": seed}
            child.post(_WORK, witness=str(self._directory / "witness"), stop=str(self._stop), **variables)
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Until each has been seen with a unit, from now on."""
        wait_until_each_holds(self.children, self._seen)

    def tell_to_stop(self) -> None:
        self._stop.touch()

    def stop(self) -> tuple[list[Counter[str]], list[list[str]]]:
        """What came of their work, and what each has logged."""
        self.tell_to_stop()
        answers = [child.answer() for child in self.children]
        return [Counter[str](tally) for tally, _ in answers], [lines for _, lines in answers]
