"""Waiting across processes: releases and deaths elsewhere, fairness, what it costs, and silence at exit."""

from __future__ import annotations

from statistics import median

import pytest

from tests.conftest import Spawn
from tests.support.processes import Child, eventually

TIMEOUT = 0.05  # seconds
A_HUNDREDTH = 0.01
NO_FUTEX = "import hardcap.bell\nhardcap.bell._futex = None"
WAIT = "permit = limiter.admit(timeout=None)\npermit.amounts"
IN_LINE = "from hardcap.waiting import queue_of\nlen(queue_of(limiter._connection))"
IN_A_THREAD = """
import threading
permits = []
threading.Thread(target=lambda: permits.append(limiter.admit(timeout=None)), daemon=True).start()
"""
MANY = """
import threading, time
from hardcap.waiting import queue_of
for _ in range(100):
    threading.Thread(target=limiter.admit, kwargs={"timeout": None}, daemon=True).start()
while len(queue_of(limiter._connection)) < 100:
    time.sleep(0.01)
"""
COST = """
import time
wall, cpu = time.monotonic(), time.process_time()
time.sleep(1)
(time.process_time() - cpu) / (time.monotonic() - wall)
"""
SPIN = "import hardcap.bell\nhardcap.bell.sleep = lambda address: False"
IMPATIENT = """
import threading, time
waits, sleeps = [], []

def note(lates, pause):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        pause()
        lates.append(time.monotonic() - began - timeout)

def wait():
    try:
        limiter.admit(timeout=asked)
    except hardcap.CapExceeded:
        pass

pairs = [(waits, wait), (sleeps, lambda: time.sleep(timeout))]
threads = [threading.Thread(target=note, args=pair) for pair in pairs]
for thread in threads: thread.start()
for thread in threads: thread.join()
[waits, sleeps]
"""
WORK = """
import threading, time
until = time.monotonic() + seconds
granted, refused = [], []

def work(timeout):
    while time.monotonic() < until:
        try:
            permit = limiter.admit(timeout=timeout)
        except hardcap.CapExceeded:
            refused.append(1)
            continue
        granted.append(1)
        token = witness.enter()
        time.sleep(0.002)
        witness.leave(token)
        permit.release()

threads = [threading.Thread(target=work, args=(timeout,)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
[len(granted), len(refused)]
"""


@pytest.mark.parametrize("futex", [True, False])
def test_a_release_elsewhere_is_noticed(attached: Spawn, mode: str, futex: bool) -> None:
    holder, waiter = (attached(limit=1, mode=mode) for _ in range(2))
    if not futex:
        waiter.run(NO_FUTEX)
    for _ in range(3):
        holder.run("assert limiter.reserve()")
        waiter.post(WAIT)
        with pytest.raises(TimeoutError):
            waiter.answer(deadline=0.1)
        holder.run("limiter.release()")
        assert waiter.answer() == {"requests": 1}
        waiter.run("permit.release()")


def test_a_dead_holders_units_come_to_one_who_waits(attached: Spawn, mode: str) -> None:
    """Nobody else is there to sweep, and nobody rings."""
    holder, waiter = (attached(limit=1, mode=mode) for _ in range(2))
    holder.run("assert limiter.reserve()")
    waiter.post(WAIT)
    with pytest.raises(TimeoutError):
        waiter.answer(deadline=0.1)
    holder.kill(reap=False)
    assert waiter.answer() == {"requests": 1}


def test_a_dead_waiter_does_not_take_the_wakeup_with_it(attached: Spawn, mode: str) -> None:
    """B20: three processes wait, the first of them is killed right before the release."""
    holder, *waiters = (attached(limit=1, mode=mode) for _ in range(4))
    holder.run("assert limiter.reserve()")
    for waiter in waiters:
        waiter.run(IN_A_THREAD)
        until_in_line(waiter, 1)
    waiters.pop(0).kill()
    holder.run("limiter.release()")
    for _ in waiters:
        eventually(lambda: any(map(is_in, waiters)), "a live waiter proceeds")
        next(filter(is_in, waiters)).run("permits.pop().release()")
    assert holder.run("limiter.in_flight") == 0


def is_in(waiter: Child) -> bool:
    return bool(waiter.run("bool(permits)"))


def until_in_line(waiter: Child, count: int) -> None:
    eventually(lambda: waiter.run(IN_LINE) == count, f"{count} wait")


def test_everybody_gets_a_turn(attached: Spawn, segment_dir: object, mode: str) -> None:
    """B52: four processes of eight waiters, one of which gives up and comes again; a witness counts the holders."""
    children = [attached(limit=1, mode=mode) for _ in range(4)]
    opening = "from bench.witness import Witness\nwitness = Witness(path)"
    for child in children:
        child.run(opening, path=f"{segment_dir}/witness")
    for child, timeout in zip(children, (0.05, 60.0, 60.0, 60.0), strict=True):
        child.post(WORK, seconds=1.5, timeout=timeout)
    answers = [child.answer() for child in children]
    assert all(granted for granted, _ in answers), "a process got no turn"
    assert sum(refused for _, refused in answers[1:]) == 0
    if mode == "strict":
        assert children[0].run("witness.peak") == 1
    assert children[0].run("limiter.in_flight") == 0


@pytest.mark.parametrize(("asked", "on_time"), [(TIMEOUT, True), (3 * TIMEOUT, False)])
def test_a_timeout_is_kept(attached: Spawn, mode: str, asked: float, on_time: bool) -> None:
    """B52: never early, and late as a plain sleep in the same process is, with some room; a longer one is seen."""
    child = attached(limit=0, mode=mode)
    waits, sleeps = child.run(IMPATIENT, seconds=10 * TIMEOUT, timeout=TIMEOUT, asked=asked)
    assert min(waits) >= 0
    assert (median(waits) < median(sleeps) + TIMEOUT) is on_time


def test_a_hundred_waiters_cost_next_to_nothing(attached: Spawn, mode: str) -> None:
    """Below a hundredth of a core, at least in one second of three; as many that ask without sleeping take more."""
    crowd = [attached(limit=0, mode=mode) for _ in range(2)]
    crowd[1].run(SPIN)
    for child in crowd:
        child.run(MANY)
    for _ in range(3):
        sleeping, spinning = costs(crowd)
        if sleeping < A_HUNDREDTH:
            break
    assert sleeping < A_HUNDREDTH < spinning


def costs(crowd: list[Child]) -> list[float]:
    """What each takes of a core, in the same second."""
    for child in crowd:
        child.post(COST)
    return [child.answer() for child in crowd]


def test_exit_with_waiters_in_daemon_threads(attached: Spawn, mode: str) -> None:
    """Silent: the fixture looks at what was written to stderr."""
    child = attached(limit=0, mode=mode, options={"flags": ("-X", "dev")})
    child.run(IN_A_THREAD)
    until_in_line(child, 1)
    assert child.finish() == 0


def test_a_limiter_inherited_by_a_fork_attaches_off_the_loop(attached: Spawn) -> None:
    child = attached(limit=1)
    code = """
import asyncio, threading
async def main():
    with await limiter.admit_async(timeout=60):
        return threading.current_thread() is threading.main_thread()
pid = os.fork()
if not pid:
    os._exit(not asyncio.run(main()))
os.waitpid(pid, 0)[1]
"""
    assert child.run(code) == 0
    assert child.run("limiter.in_flight") == 0


def test_a_bell_that_nobody_rang_costs_one_sleep(attached: Spawn) -> None:
    """As after a ringer that died between the release and the bell, or a store that was not seen in time."""
    holder, waiter = (attached(limit=1) for _ in range(2))
    holder.run("assert limiter.reserve()")
    waiter.post(WAIT)
    with pytest.raises(TimeoutError):
        waiter.answer(deadline=0.1)
    silent = "from hardcap import layout\nwords = limiter._connection.admission.segment.words\n"
    holder.run(silent + "words.store(layout.global_word(0), 1 << 32)")
    assert waiter.answer() == {"requests": 1}
