"""A worker is killed while the service is full: what it held, and when as many are in flight again."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, TypeVar

import hardcap
from bench.witness import Witness

PATIENCE: Final = 30.0  # seconds until what should happen is given up as not happening

EXIT_SECONDS: Final = 0.2  # in which a killed process is gone

Answer = TypeVar("Answer")
Clock = Callable[[], float]  # seconds since the load began


@dataclass
class Recovery:
    """The story of one killed worker. ``back_after_seconds`` is from the SIGKILL to a full service, None: not seen."""

    in_flight_before: int = 0
    held_by_killed: int = 0
    killed_at_seconds: float | None = None
    back_after_seconds: float | None = None

    @property
    def gone_at_seconds(self) -> float:
        """When the killed worker has left the witness for certain."""
        return (self.killed_at_seconds or 0.0) + EXIT_SECONDS

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


async def kill_a_worker(witness: Witness, limit: int, clock: Clock, patience: float = PATIENCE) -> Recovery:
    """Kill the worker that holds most at an instant when ``limit`` are in flight, and wait until as many are again."""
    story = Recovery()
    victim = await _until(lambda: _kill_when_full(story, witness, limit))
    if victim is None:
        return story
    killed_at = clock()
    story.killed_at_seconds = round(killed_at, 4)

    def full_again() -> bool:
        holders = witness.holders()
        return victim not in holders and holders.total() >= limit

    if await _until(full_again, patience):
        story.back_after_seconds = round(clock() - killed_at, 4)
    return story


async def capacity(limiter: hardcap.Limiter, witness: Witness) -> int:
    """How many units can be reserved once nothing is in flight: the limit, if none was lost and none invented."""
    await _until(lambda: witness.current == 0 and limiter.in_flight == 0)
    found = 0
    while found <= 2 * limiter.limit and limiter.reserve():
        found += 1
    return found


def _kill_when_full(story: Recovery, witness: Witness, limit: int) -> int | None:
    with witness.held_still() as holders:  # so that what the victim holds is what it dies with
        if holders.total() < limit:
            return None
        victim, held = holders.most_common(1)[0]
        os.kill(victim, signal.SIGKILL)
    story.in_flight_before, story.held_by_killed = holders.total(), held
    return victim


async def _until(seen: Callable[[], Answer], patience: float = PATIENCE) -> Answer | None:
    """The first true answer, asked each millisecond; None if there is none within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if answer := seen():
            return answer
        await asyncio.sleep(0.001)
    return None
