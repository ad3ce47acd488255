"""Who survives a killed holder: processes are killed, and then the whole capacity is asked for again.

A question may hang for ever, so each is asked by a thread that nobody waits for longer than ``PATIENCE``, in a process
that is killed in the end.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import compress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from operator import not_
from threading import Thread
from typing import Final, NamedTuple

from bench.baselines import Attach, Context, Gate, Subject
from bench.crew import ANSWER_SECONDS, Crew, WorkerFailed
from bench.rounds import Step

LIMIT: Final = 4
WORKERS: Final = 2
PATIENCE: Final = 5.0  # seconds: who has recovered answers at once, however busy the machine
WORK_SECONDS: Final = 0.05  # at most, until the kill


class Doing(StrEnum):
    """What a process is killed at."""

    HOLDING = "holding"
    """It holds one unit."""
    INSIDE = "in lock"
    """It is in the lock of the subject, where the first reservation leaves it."""
    WORKING = "at work"
    """It takes and returns units: with no lock to die in, there are still steps to die between."""


class Trial(NamedTuple):
    """A subject whose users are killed at something."""

    subject: Subject
    doing: Doing

    @property
    def victims(self) -> int:
        """How many are killed. They are the first ones attached."""
        return WORKERS if self.doing is Doing.WORKING else 1

    def share(self, context: Context) -> Attach:
        """For the victims, and for those that ask afterwards, one for each unit."""
        return self.subject.share(context, LIMIT, self.victims + LIMIT)


class Survival(NamedTuple):
    """How many units could be had again, of ``LIMIT``."""

    name: str
    doing: Doing
    units: int

    @property
    def survived(self) -> bool:
        """Whether nothing was lost."""
        return self.units == LIMIT


@dataclass(frozen=True)
class Hold:
    """A task: take one unit and keep it. Gives the process id."""

    def __call__(self, gate: Gate, start: Barrier) -> int:
        gate.reserve()
        return os.getpid()


@dataclass(frozen=True)
class Work:
    """A task: pairs without end, in a thread beside. Gives the process id."""

    def __call__(self, gate: Gate, start: Barrier) -> int:
        Thread(target=_work, args=(gate,), daemon=True).start()
        return os.getpid()


def measure(context: Context, trials: Sequence[Trial], step: Step) -> list[Survival]:
    """All trials side by side: one process is killed that holds something of each, and others at work with each."""
    shares = [trial.share(context) for trial in trials]
    working = [trial.doing is Doing.WORKING for trial in trials]
    step("killing holders")
    _kill_holder(context, list(compress(shares, map(not_, working))))
    _kill_workers(context, list(compress(shares, working)))
    step("asking for what they held")
    units = _ask(
        context, [partial(_shifted, share, trial.victims) for trial, share in zip(trials, shares, strict=True)]
    )
    return [Survival(trial.subject.name, trial.doing, had) for trial, had in zip(trials, units, strict=True)]


def _kill_holder(context: Context, shares: Sequence[Attach]) -> None:
    with Crew(context, shares, 1) as crew:
        crew.attached()
        (pid,) = {pid for index in range(len(shares)) for pid in crew.run(index, Hold())}
        os.kill(pid, signal.SIGKILL)


def _kill_workers(context: Context, shares: Sequence[Attach]) -> None:
    with Crew(context, [partial(_one_of, shares)], WORKERS * len(shares)) as crew:
        crew.attached()
        for pid in crew.run(0, Work()):
            time.sleep(random.uniform(0, WORK_SECONDS))
            os.kill(pid, signal.SIGKILL)


def _one_of(shares: Sequence[Attach], index: int) -> Gate:
    return shares[index % len(shares)](index // len(shares))


def _shifted(share: Attach, by: int, index: int) -> Gate:
    return share(by + index)


def _work(gate: Gate) -> None:
    while True:
        gate.reserve()
        gate.release()


def _ask(context: Context, shares: Sequence[Attach]) -> list[int]:
    """How many units each gives."""
    ours, theirs = context.Pipe(duplex=False)
    asking = context.Process(target=_answer, args=(theirs, shares), daemon=True)
    asking.start()
    try:
        theirs.close()
        if not ours.poll(ANSWER_SECONDS):
            raise WorkerFailed(f"who asked for units gave no answer in {ANSWER_SECONDS:.0f} s")
        units: list[int] = ours.recv()
    except EOFError:
        raise WorkerFailed("who asked for units died") from None
    finally:
        asking.kill()
        asking.join()
        ours.close()
    return units


def _answer(answer: Connection, shares: Sequence[Attach]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    crowds = [[share(unit) for unit in range(LIMIT)] for share in shares]  # attached before the clock runs
    units = [0] * len(shares)
    threads = [Thread(target=_take, args=(gates, units, index), daemon=True) for index, gates in enumerate(crowds)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answer.send(units)
    signal.pause()  # until killed, as some of the threads may have to be


def _take(gates: Sequence[Gate], units: list[int], index: int) -> None:
    for gate in gates:
        while gate.reserve() is False:
            time.sleep(0.001)
        units[index] += 1
