"""The conductor of a storm: it forks the workers, stops and kills them at random, and watches.

It runs in a process of its own, with one thread, that has loaded all that a worker needs: a worker costs one fork.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import hardcap
from hardcap.viewing import viewing
from tests.support import leaks
from tests.torture.deaths import Deaths, Times
from tests.torture.ledger import Change, Page, Pages, Stay, now
from tests.torture.plan import WORKERS, Plan
from tests.torture.verdict import judge
from tests.torture.worker import PAGES, live

PATIENCE: Final = 20.0  # seconds until what should end, or come back, is given up
TICK: Final = 0.0005
KILL_EVERY: Final = (0.005, 0.025)  # seconds; one in five kills two at once, one in ten a worker with its child
STOP_EVERY: Final = (0.01, 0.1)
STOP_FOR: Final = (0.001, 0.03)


@dataclass
class Worker:
    """One that lives, or has left something behind that does."""

    pid: int
    pages: list[Page]
    killed_at: int = 0
    ended: bool = False
    slot: int | None = None  # while it is stopped
    resume_at: float = 0.0


@dataclass
class Outcome:
    """What a storm came to. ``faults`` are units missing or invented, wrong ends and whatever did not come back."""

    kills: int = 0
    stops: int = 0
    seconds: float = 0.0
    admitted: int = 0
    refused: int = 0
    violations: int = 0
    peak: int = 0
    pause_ms: float = 0.0  # the longest without an admission
    times: Times = field(default_factory=Times)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for name in ("kills", "stops", "seconds", "admitted", "refused", "violations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak, self.pause_ms = max(self.peak, other.peak), max(self.pause_ms, other.pause_ms)
        self.times += other.times
        self.faults += other.faults


class Storm:
    """One storm on one segment, from its building to the count of what is free in the end."""

    def __init__(self, plan: Plan, name: str, directory: str, seed: int) -> None:
        self._plan, self._name, self._directory = plan, name, directory
        self._chance = random.Random(seed)
        self._pages = Pages(WORKERS * PAGES * 4)
        self._alive: dict[int, Worker] = {}
        self._leaving: list[Worker] = []
        self._stays: list[Stay] = []
        self._changes: list[Change] = []
        self._outcome = Outcome()

    def run(self, kills: int, seconds: float) -> Outcome:
        with ExitStack() as stack:
            # Attended throughout: a segment that nobody attends starts afresh, whatever was lost in it.
            limits, mode = self._plan.limits, self._plan.mode
            watcher = hardcap.open(self._name, limits=limits, mode=mode, max_processes=64, directory=self._directory)
            stack.enter_context(watcher)
            for backend in self._plan.backends:  # loads what it needs, before the forks
                hardcap.open(self._name, directory=self._directory, backend=backend).close()
            words = stack.enter_context(viewing(self._name, self._directory))
            self._deaths = Deaths(words)
            stack.callback(self._kill_all)
            began = now()
            self._rage(kills, time.monotonic() + seconds)
            self._outcome.seconds = (now() - began) / 1e9
            self._subside()
            self._judge(watcher)
        return self._outcome

    def _rage(self, kills: int, until: float) -> None:
        kill_at = stop_at = time.monotonic() + 0.05
        while self._outcome.kills < kills and time.monotonic() < until:
            self._tick()
            if time.monotonic() >= kill_at:
                self._kill(2 if self._chance.random() < 0.2 else 1)
                kill_at = time.monotonic() + self._chance.uniform(*KILL_EVERY)
            if time.monotonic() >= stop_at:
                self._stop()
                stop_at = time.monotonic() + self._chance.uniform(*STOP_EVERY)

    def _tick(self) -> None:
        """What is always to be done."""
        self._reap()
        while len(self._alive) < WORKERS and len(self._pages.free) >= PAGES and not self._pages.stopping:
            self._start()
        self._resume(time.monotonic())
        self._deaths.look([worker.slot for worker in self._alive.values() if worker.slot is not None])
        time.sleep(TICK)

    def _start(self) -> None:
        own = [self._pages.free.pop() for _ in range(PAGES)]
        seed = self._chance.getrandbits(32)
        pid = os.fork()
        if not pid:
            live(self._plan, self._name, self._directory, self._pages, own, seed)
        self._alive[pid] = Worker(pid, own)

    def _kill(self, count: int) -> None:
        """At one instant, as near as that goes; some together with their forked children."""
        owners = self._deaths.owners()
        victims = self._aim(sorted(self._alive), owners, count)
        seen = {pid: (owners[pid], self._deaths.incarnation(owners[pid])) for pid in victims if pid in owners}
        for pid in victims:
            self._alive[pid].killed_at = now()
            _send(pid, signal.SIGKILL, group=self._chance.random() < 0.1)
        for pid in victims:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            if pid in seen:
                self._deaths.died(*seen[pid], self._alive[pid].killed_at)

    def _stop(self) -> None:
        owners = self._deaths.owners()
        running = [pid for pid, worker in self._alive.items() if worker.slot is None and pid in owners]
        for pid in self._aim(running, owners, 1):
            os.kill(pid, signal.SIGSTOP)
            self._alive[pid].slot = owners[pid]
            self._alive[pid].resume_at = time.monotonic() + self._chance.uniform(*STOP_FOR)
            self._outcome.stops += 1

    def _aim(self, pids: Sequence[int], owners: Mapping[int, int], count: int) -> list[int]:
        """Some of them at random; every other time those who are inside an operation come first."""
        chosen = self._chance.sample(pids, len(pids))
        if self._chance.random() < 0.5:
            chosen.sort(key=lambda pid: pid not in owners or not self._deaths.is_inside(owners[pid]))
        return chosen[:count]

    def _resume(self, until: float) -> None:
        for worker in self._alive.values():
            if worker.slot is not None and worker.resume_at <= until:
                os.kill(worker.pid, signal.SIGCONT)
                worker.slot = None

    def _reap(self) -> None:
        for pid, status in _ended():
            worker = self._alive.pop(pid, None)
            self._outcome.kills += status == -signal.SIGKILL
            killed = worker is not None and worker.killed_at
            if status not in ((0, -signal.SIGKILL) if killed or worker is None else (0,)):
                self._outcome.faults.append(f"process {pid} ended with {status}")
            if worker is not None:
                self._leaving.append(worker)
        for worker in list(self._leaving):
            if not _has_group(worker.pid):
                self._leaving.remove(worker)
                self._collect(worker)

    def _collect(self, worker: Worker) -> None:
        for page in worker.pages:
            for record in page.read(worker.killed_at, len(self._plan.limits)):
                if isinstance(record, Change):
                    self._changes.append(record)
                elif record.admitted < record.ended:
                    self._stays.append(record)
            self._outcome.refused += page.clear()
            self._pages.free.append(page)

    def _subside(self) -> None:
        """The survivors go on until the last of the dead is recovered; that they then end shows that none hangs."""
        self._resume(float("inf"))
        if not self._tick_until(lambda: not self._deaths.awaited):
            self._outcome.faults.append(f"the units of {self._deaths.awaited} dead do not come back")
        self._pages.stopping = True
        if not self._tick_until(lambda: not self._alive and not self._leaving):
            self._outcome.faults.append(f"workers {sorted(self._alive)} hang")
            self._kill_all()
        self._outcome.times = self._deaths.times

    def _tick_until(self, done: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while not done() and time.monotonic() < deadline:
            self._tick()
        return done()

    def _kill_all(self) -> None:
        for worker in (*self._alive.values(), *self._leaving):
            worker.killed_at = worker.killed_at or now()
            _send(worker.pid, signal.SIGKILL, group=True)
        while self._alive or self._leaving:
            self._reap()
            time.sleep(TICK)

    def _judge(self, watcher: hardcap.Limiter) -> None:
        limits = tuple(self._plan.limits.values())
        verdict = judge(self._stays, self._changes, limits, self._plan.excess)
        self._outcome.violations, self._outcome.peak = verdict.violations, verdict.peak
        self._outcome.admitted = len(self._stays)
        self._outcome.pause_ms = longest_pause(self._stays) / 1e6
        watcher.set_limit(limits[0])
        self._outcome.faults += miscounted(watcher, self._plan.limits)


def miscounted(limiter: hardcap.Limiter, limits: Mapping[str, int]) -> Iterator[str]:
    """What is wrong when all others are gone: nothing may be in flight, and exactly the limit is to be had."""
    limiter.reap()
    for resource in limiter.snapshot().resources:
        if resource.in_flight:
            yield f"{resource.in_flight} {resource.name} in flight"
    for name, limit in limits.items():
        free = 0
        while free <= limit and limiter.reserve(**{name: 1}):
            free += 1
        if free:
            limiter.release(**{name: free})
        if free != limit:
            yield f"{free} of {limit} {name} free"


def longest_pause(stays: Iterable[Stay]) -> int:
    """Nanoseconds between one admission and the next, whoever's."""
    return max((later - earlier for earlier, later in pairwise(sorted(stay.admitted for stay in stays))), default=0)


def run(plan: Plan, name: str, directory: str, *, kills: int, seed: int, seconds: float = math.inf) -> Outcome:
    """One storm, in a process that has no other thread and no other child; it ends early after so many seconds."""
    leaks.adopt_orphans()  # forked children of workers that were killed
    return Storm(plan, name, directory, seed).run(kills, seconds)


def _ended() -> Iterator[tuple[int, int]]:
    """Children that have ended, and their statuses; orphans among them."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _has_group(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, 0)
        return True
    return False


def _send(pid: int, number: signal.Signals, *, group: bool) -> None:
    """To a worker, or to it and its children."""
    if group:
        with contextlib.suppress(ProcessLookupError):  # it has not got so far
            os.killpg(pid, number)
    with contextlib.suppress(ProcessLookupError):  # it is gone
        os.kill(pid, number)
