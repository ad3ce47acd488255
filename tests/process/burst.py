"""Bursts: many threads of many processes reserve at once, hold until all have decided, and give back.

Nobody releases while anybody decides, so the holders after a round are its peak. They are counted by the witness.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from threading import Thread
from typing import Protocol

import hardcap
from bench.witness import Witness
from tests.support.channel import Channel

CHANNELS = ("start", "stop", "decided")
WON, LOST = b"1", b"0"


class Admission(Protocol):
    """What contends: a limiter, or a control that must be caught."""

    def reserve(self) -> bool: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class NoCap:
    """Control: admits everybody."""

    def __init__(self, path: str, limit: int) -> None: ...

    def reserve(self) -> bool:
        return True

    def release(self) -> None: ...

    def close(self) -> None: ...


class CheckThenAdd:
    """Control: the classic fault. Reads a shared counter, decides, then adds."""

    def __init__(self, path: str, limit: int) -> None:
        self._limit = limit
        with open(path, "a+b") as file:
            file.truncate(mmap.PAGESIZE)
            self._count = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def reserve(self) -> bool:
        seen = self._count[0]
        if seen >= self._limit:
            return False
        time.sleep(0)
        self._count[0] = seen + 1
        return True

    def release(self) -> None:
        self._count[0] = max(0, self._count[0] - 1)

    def close(self) -> None:
        self._count.close()


CONTROLS: dict[str, Callable[[str, int], Admission]] = {"no-cap": NoCap, "check-then-add": CheckThenAdd}


@dataclass(frozen=True)
class Burst:
    """Where a burst happens, how many contend in it, and for what. Picklable, so that any child can join."""

    scratch: str
    processes: int
    threads: int
    limit: int
    kind: str
    backend: str = "auto"
    name: str = "burst"

    def admission(self) -> Admission:
        if self.kind in CONTROLS:
            return CONTROLS[self.kind](os.path.join(self.scratch, "count"), self.limit)
        return hardcap.open(self.name, limit=self.limit, mode=self.kind, backend=self.backend, directory=self.scratch)

    def channel(self, what: str) -> Channel:
        return Channel(os.path.join(self.scratch, what))

    def witness(self) -> Witness:
        return Witness(os.path.join(self.scratch, "witness"))


def contend(burst: Burst, rounds: int, admission: Admission | None = None) -> None:
    """One process's part: ``burst.threads`` threads, each in every round."""
    admission = admission or burst.admission()
    witness = burst.witness()
    start, stop, decided = map(burst.channel, CHANNELS)

    def play() -> None:
        for _ in range(rounds):
            start.wait()
            won = admission.reserve()
            token = witness.enter() if won else 0
            decided.send(WON if won else LOST)
            stop.wait()
            if won:
                witness.leave(token)
                admission.release()
            decided.send(b".")

    decided.send(b".")
    threads = [Thread(target=play) for _ in range(burst.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    admission.close()


def conduct(burst: Burst, rounds: int) -> list[int]:
    """Conduct the rounds of a burst whose processes have been started: holders of each, by the witness."""
    with ExitStack() as stack:
        start, stop, decided = (stack.enter_context(closing(burst.channel(what))) for what in CHANNELS)
        witness = stack.enter_context(closing(burst.witness()))
        everybody = burst.processes * burst.threads

        def play_round() -> int:
            start.send(b"." * everybody)
            admitted = decided.collect(everybody).count(WON)
            holders = witness.current
            assert holders == admitted, "the witness and the answers tell the same"
            stop.send(b"." * everybody)
            decided.collect(everybody)
            return holders

        decided.collect(burst.processes)
        return [play_round() for _ in range(rounds)]
