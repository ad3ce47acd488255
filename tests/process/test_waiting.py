"""Waiting across processes: releases and deaths elsewhere, fairness, what it costs, and silence at exit."""

from __future__ import annotations

import itertools

import pytest

from tests.conftest import Spawn
from tests.support.backends import BACKENDS
from tests.support.processes import Child, eventually

every_kind = pytest.mark.parametrize(("mode", "backend"), list(itertools.product(("strict", "approximate"), BACKENDS)))
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
time.sleep(0.2)
wall, cpu = time.monotonic(), time.process_time()
time.sleep(2)
(time.process_time() - cpu) / (time.monotonic() - wall)
"""
WORK = """
import threading, time
until = time.monotonic() + seconds
waits, late, refused = [], [], []

def work(timeout):
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            permit = limiter.admit(timeout=timeout)
        except hardcap.CapExceeded:
            refused.append(1)
            late.append(time.monotonic() - began - timeout)
            continue
        waits.append(time.monotonic() - began)
        token = witness.enter()
        time.sleep(0.002)
        witness.leave(token)
        permit.release()

threads = [threading.Thread(target=work, args=(timeout,)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
[waits, late, len(refused)]
"""


@every_kind
@pytest.mark.parametrize("futex", [True, False])
def test_a_release_elsewhere_is_noticed(attached: Spawn, mode: str, backend: str, futex: bool) -> None:
    holder, waiter = (attached(limit=1, mode=mode, backend=backend) for _ in range(2))
    if not futex:
        waiter.run(NO_FUTEX)
    for _ in range(5):
        holder.run("assert limiter.reserve()")
        waiter.post(WAIT)
        with pytest.raises(TimeoutError):
            waiter.answer(deadline=0.1)
        holder.run("limiter.release()")
        assert waiter.answer() == {"requests": 1}
        waiter.run("permit.release()")


@every_kind
def test_a_dead_holders_units_come_to_one_who_waits(attached: Spawn, mode: str, backend: str) -> None:
    """Nobody else is there to sweep, and nobody rings."""
    holder, waiter = (attached(limit=1, mode=mode, backend=backend) for _ in range(2))
    holder.run("assert limiter.reserve()")
    waiter.post(WAIT)
    with pytest.raises(TimeoutError):
        waiter.answer(deadline=0.1)
    holder.kill(reap=False)
    assert waiter.answer() == {"requests": 1}


@every_kind
def test_a_dead_waiter_does_not_take_the_wakeup_with_it(attached: Spawn, mode: str, backend: str) -> None:
    """B20: three processes wait, the first of them is killed right before the release."""
    holder, *waiters = (attached(limit=1, mode=mode, backend=backend) for _ in range(4))
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


@pytest.mark.parametrize("mode", ["strict", "approximate"])
def test_everybody_gets_a_turn(attached: Spawn, segment_dir: object, mode: str) -> None:
    """B52: four processes of eight waiters, one of which gives up and comes again; a witness counts the holders."""
    children = [attached(limit=1, mode=mode) for _ in range(4)]
    opening = "from bench.witness import Witness\nwitness = Witness(path)"
    for child in children:
        child.run(opening, path=f"{segment_dir}/witness")
    for child, timeout in zip(children, (0.05, 60.0, 60.0, 60.0), strict=True):
        child.post(WORK, seconds=1.5, timeout=timeout)
    answers = [child.answer() for child in children]
    for waits, _late, _refused in answers:
        assert waits, "a process got no turn"
    assert min(late for _, lates, _ in answers for late in [0.0, *lates]) >= 0
    assert sum(refused for _, _, refused in answers[1:]) == 0
    if mode == "strict":
        assert children[0].run("witness.peak") == 1
    assert children[0].run("limiter.in_flight") == 0


@every_kind
def test_a_hundred_waiters_cost_next_to_nothing(attached: Spawn, mode: str, backend: str) -> None:
    """Below a hundredth of a core on an idle machine; the bound leaves room for a busy one."""
    child = attached(limit=0, mode=mode, backend=backend)
    child.run(MANY)
    assert child.run(COST) < 0.03


def test_the_cost_of_one_that_spins_is_seen(attached: Spawn) -> None:
    """Control: the same measure of a waiter that asks without sleeping."""
    child = attached(limit=0)
    child.run("import hardcap.bell\nhardcap.bell.sleep = lambda address: False")
    child.run(MANY)
    assert child.run(COST) > 0.03


@every_kind
def test_exit_with_waiters_in_daemon_threads(attached: Spawn, mode: str, backend: str) -> None:
    """Silent: the fixture looks at what was written to stderr."""
    child = attached(limit=0, mode=mode, backend=backend, options={"flags": ("-X", "dev")})
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
