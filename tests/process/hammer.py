"""Many threads, a signal handler and the garbage collector on one limiter. Run inside a child of the test."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from typing import Any

import hardcap


def switch_often() -> None:
    """Let the interpreter change threads nearly everywhere it can."""
    sys.setswitchinterval(1e-6)


def run_together(functions: list[Callable[[], None]]) -> None:
    """Each in a thread of its own. Raises what the first of them raised."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result()


def cycle(limiter: hardcap.Limiter, cycles: int) -> int:
    """Reserve and release by turns: how often it was admitted."""
    admitted = 0
    for _ in range(cycles):
        if limiter.reserve():
            admitted += 1
            limiter.release()
    return admitted


def rounds(limiter: hardcap.Limiter, threads: int, rounds: int) -> list[tuple[int, int]]:
    """Between barriers each thread cycles and then keeps a number of units: (kept, in flight) at each quiet point."""
    quiet, seen, kept = Barrier(threads + 1), [], [0] * threads

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(rounds):
            assert cycle(limiter, 20) == 20, "refused, with room for all"
            kept[number] = sum(limiter.reserve() for _ in range(chance.randrange(4)))
            quiet.wait()
            quiet.wait()
            if kept[number]:
                limiter.release(kept[number])

    def watch() -> None:
        for _ in range(rounds):
            quiet.wait()
            seen.append((sum(kept), limiter.held))
            quiet.wait()

    run_together([watch, *(lambda number=number: work(number) for number in range(threads))])
    return seen


def loop_and_executor(limiter: hardcap.Limiter, tasks: int) -> int:
    """Coroutines that reserve on the loop and release on a pool's thread, or the reverse. What is held at the end."""

    async def task(number: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(20):
            on_loop = number % 2 == 0
            admitted = limiter.reserve() if on_loop else await loop.run_in_executor(None, limiter.reserve)
            await asyncio.sleep(0)
            if admitted and on_loop:
                await loop.run_in_executor(None, limiter.release)
            elif admitted:
                limiter.release()

    async def crowd() -> None:
        await asyncio.gather(*(task(number) for number in range(tasks)))

    asyncio.run(crowd())
    return limiter.held


def loops_in_threads(limiter: hardcap.Limiter) -> int:
    """Two loops at once in two threads, then a third after them: contended, and permits cross threads."""
    run_together([lambda: _contend(limiter, 10), lambda: _contend(limiter, 10)])
    _contend(limiter, 5)
    return limiter.held


def _contend(limiter: hardcap.Limiter, tasks: int) -> None:
    async def task() -> None:
        for _ in range(20):
            try:
                permit = limiter.admit()
            except hardcap.CapExceeded:
                await asyncio.sleep(0)
                continue
            await asyncio.sleep(0)
            assert await asyncio.to_thread(permit.release)
            assert not permit.release()

    async def crowd() -> None:
        await asyncio.gather(*(task() for _ in range(tasks)))

    asyncio.run(crowd())


class Interrupter:
    """A signal handler that reserves, releases or looks, whatever it interrupts. What it keeps it counts.

    It also interrupts itself, though not for ever: each signal arms the timer for the next.
    """

    def __init__(self, limiter: hardcap.Limiter) -> None:
        self._limiter = limiter
        self._chance = random.Random(7)
        self._depth = 0
        self.kept = self.calls = 0

    def arm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._chance.uniform(0.00005, 0.0005))

    def __call__(self, *_: object) -> None:
        self.calls += 1
        self._depth += 1
        if nests := self._depth < 3:
            self.arm()
        self._act()
        self._depth -= 1
        if not nests:
            self.arm()

    def _act(self) -> None:
        choice = self._chance.randrange(4)
        if choice == 0 and self._limiter.reserve():
            self.kept += 1
        elif choice == 1 and self.kept:
            self.kept -= 1
            self._limiter.release()
        elif choice == 2:
            self._limiter.snapshot()
        elif self._limiter.reserve():
            self._limiter.release()


def interrupted(limiter: hardcap.Limiter, threads: int, calls: int) -> tuple[int, int]:
    """Cycle, in the main thread and others, under a fast timer: units the handler kept, units held."""
    interrupter = Interrupter(limiter)
    stopping: list[bool] = []

    def work() -> None:
        while not stopping:
            cycle(limiter, 10)

    others = [Thread(target=work) for _ in range(threads)]
    for other in others:
        other.start()
    before = signal.signal(signal.SIGALRM, interrupter)
    interrupter.arm()
    while interrupter.calls < calls:
        cycle(limiter, 10)
        signal.pthread_sigmask(signal.SIG_BLOCK, [])  # looks for signals that the interpreter's own race has let lie
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    stopping.append(True)
    for other in others:
        other.join()
    return interrupter.kept, limiter.held


def forgotten(limiter: hardcap.Limiter, permits: int) -> int:
    """Drop permits in reference cycles, so that the collector finds them in the middle of anything. Units held."""
    warnings.simplefilter("ignore", ResourceWarning)
    gc.set_threshold(3)
    for _ in range(permits):
        try:
            knot = [limiter.admit()]
        except hardcap.CapExceeded:
            continue
        knot.append(knot)  # type: ignore[arg-type]
        cycle(limiter, 1)
    del knot
    gc.set_threshold(700)
    gc.collect()
    return limiter.held


def closed_under(times: int, name: str, **settings: Any) -> list[str]:
    """Close a limiter while threads use it: what ended each thread."""
    ends: list[str] = []

    def work(limiter: hardcap.Limiter) -> None:
        try:
            while True:
                cycle(limiter, 10)
                limiter.snapshot()
        except hardcap.HardcapError as error:
            ends.append(type(error).__name__)

    for number in range(times):
        limiter = hardcap.open(name, **settings)
        threads = [Thread(target=work, args=(limiter,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.001 * (number % 5))
        limiter.close()
        for thread in threads:
            thread.join()
    return ends
