"""A storm of kills: workers reserve and release as fast as they can while one after the other is killed.

Run inside a child of the test, whose forked children the workers are.
"""

from __future__ import annotations

import os
import random
import signal
import time
from threading import Event, Thread
from typing import NoReturn

import hardcap
from bench.witness import Witness

THREADS = 4


def cycle(limiter: hardcap.Limiter, witness: Witness, seed: int, stopping: Event) -> None:
    """Reserve some units, hold them for 0 to 2 ms in the sight of the witness, give back."""
    chance = random.Random(seed)
    while not stopping.is_set():
        amount = chance.choice((1, 1, 2, 3))
        if not limiter.reserve(amount):
            time.sleep(0.0002)
            continue
        tokens = [witness.enter() for _ in range(amount)]
        time.sleep(chance.choice((0, 0, 0.0005, 0.002)))
        for token in tokens:
            witness.leave(token)
        limiter.release(amount)


def worker(name: str, directory: str, seed: int) -> NoReturn:
    limiter = hardcap.open(name, directory=directory)
    witness = Witness(os.path.join(directory, "witness"))
    stopping = Event()
    seeds = range(seed * THREADS, (seed + 1) * THREADS)
    threads = [Thread(target=cycle, args=(limiter, witness, seed, stopping)) for seed in seeds]
    for thread in threads:
        thread.start()
    signal.sigwait({signal.SIGTERM})
    stopping.set()
    for thread in threads:
        thread.join()
    os._exit(limiter.held)


def start(name: str, directory: str, seed: int) -> int:
    pid = os.fork()
    if not pid:
        worker(name, directory, seed)
    return pid


def end(pids: list[int], number: signal.Signals, expected: int) -> None:
    """Signal all of them at one instant, as near as that goes; then reap them."""
    for pid in pids:
        os.kill(pid, number)
    for pid in pids:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == expected, f"worker {pid} ended with {status}"


def storm(name: str, directory: str, *, workers: int, rounds: int, at_once: int, seed: int) -> None:
    """``rounds`` times, every 5 to 30 ms, kill ``at_once`` random workers and start as many.

    The survivors are asked to end: that they do, holding nothing, shows that none is held up.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited, and waited for
    hardcap.open(name, directory=directory).close()  # loads what the forked workers need at once
    chance = random.Random(seed)
    alive = [start(name, directory, number) for number in range(workers)]
    for number in range(rounds):
        time.sleep(chance.uniform(0.005, 0.030))
        victims = chance.sample(alive, at_once)
        end(victims, signal.SIGKILL, -signal.SIGKILL)
        alive = [pid for pid in alive if pid not in victims]
        alive += [start(name, directory, seed + number * workers + k) for k in range(at_once)]
    end(alive, signal.SIGTERM, 0)
