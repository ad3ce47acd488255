"""What was in flight over time, as the independent witness sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from bench.witness import Witness

INTERVAL: Final = 0.005  # seconds between two looks: a tenth of the shortest request

Show = Callable[[int], None]


class Timeline:
    """Looks at the witness at even intervals. ``points``: seconds since the beginning, and in flight from then on."""

    def __init__(self, witness: Witness, show: Show) -> None:
        self.points: list[tuple[float, int]] = []
        self._witness = witness
        self._show = show
        self._began = time.perf_counter()

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(INTERVAL)

    def peak_since(self, seconds: float) -> int:
        """The most that was seen after that time; 0 if nothing was."""
        return max((in_flight for at, in_flight in self.points if at > seconds), default=0)

    def _look(self) -> None:
        in_flight = self._witness.current
        if not self.points or self.points[-1][1] != in_flight:
            self.points.append((round(self.now(), 4), in_flight))
            self._show(in_flight)
