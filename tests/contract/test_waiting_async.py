"""Waiting in asyncio tasks: the loop goes on, and a task that is cancelled at any instant holds nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_come_back, waiting_threads
from tests.support.processes import DEADLINE, eventually
from tests.support.waiters import LONG, in_line, line, until_in_line

SHORT = 0.02  # seconds
JITTER = 0.05  # seconds that waiting may add to the longest time between two ticks
Task = asyncio.Task[hardcap.Permit]


async def joins(limiter: hardcap.Limiter, *amounts: int, timeout: float | None = LONG) -> Task:
    """One more task that waits; back when it does."""
    before = in_line(limiter)
    task = asyncio.create_task(limiter.admit_async(*amounts, timeout=timeout))
    while in_line(limiter) == before:
        await asyncio.sleep(0)
    return task


async def ended(task: Task) -> BaseException | None:
    await asyncio.wait([task], timeout=DEADLINE)
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def test_it_gets_what_is_released_meanwhile(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        held = await limiter.admit_async(3)
        task = await joins(limiter, 2)
        held.release()
        permit = await task
        assert permit.amounts == {"requests": 2}
        assert permit.release()

    asyncio.run(main())
    assert limiter.snapshot().totals.rejected == {"requests": 0}
    assert_all_come_back(limiter, 3)


def test_in_vain_it_counts_once(limiter: hardcap.Limiter) -> None:
    async def main() -> None:
        for timeout in (0.0, SHORT):
            with pytest.raises(hardcap.CapExceeded):
                await limiter.admit_async(timeout=timeout)

    with limiter.admit(3):
        asyncio.run(main())
    assert limiter.snapshot().totals.rejected == {"requests": 2}
    assert_all_come_back(limiter, 3)


@pytest.mark.parametrize("timeout", [-1, float("nan"), True])
def test_wrong_arguments(limiter: hardcap.Limiter, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        asyncio.run(limiter.admit_async(timeout=timeout))
    with pytest.raises(ValueError, match="files"):
        asyncio.run(limiter.admit_async(files=1))
    assert_all_come_back(limiter, 3)


@pytest.mark.parametrize("cancelled", [0, 1])
@pytest.mark.parametrize("release_first", [True, False])
def test_a_cancelled_waiter_does_not_take_the_wakeup_with_it(opened: Open, cancelled: int, release_first: bool) -> None:
    """B20: released and cancelled in one turn of the loop, in either order."""
    limiter = opened(limit=1)

    async def main() -> None:
        held = limiter.admit()
        tasks = [await joins(limiter) for _ in range(3)]
        victim = tasks.pop(cancelled)
        for act in sorted((held.release, victim.cancel), key=lambda act: (act == held.release) != release_first):
            act()
        assert isinstance(await ended(victim), asyncio.CancelledError)
        for task in tasks:
            (await asyncio.wait_for(task, DEADLINE)).release()

    asyncio.run(main())
    assert_all_come_back(limiter, 1)


async def by_wait_for(limiter: hardcap.Limiter, seconds: float) -> hardcap.Permit:
    return await asyncio.wait_for(limiter.admit_async(timeout=None), seconds)


async def by_timeout(limiter: hardcap.Limiter, seconds: float) -> hardcap.Permit:
    async with asyncio.timeout(seconds):
        return await limiter.admit_async(timeout=None)


async def by_itself(limiter: hardcap.Limiter, seconds: float) -> hardcap.Permit:
    return await limiter.admit_async(timeout=seconds)


@pytest.mark.parametrize("ask", [by_wait_for, by_timeout, by_itself])
def test_timeouts_that_meet_the_grant_lose_nothing(
    opened: Open, ask: Callable[[hardcap.Limiter, float], Awaitable[hardcap.Permit]]
) -> None:
    """B21: waits end while what they wait for is released."""
    limiter = opened(limit=4)

    async def work(number: int) -> None:
        with contextlib.suppress(TimeoutError, hardcap.CapExceeded):
            permit = await ask(limiter, 0.002 + number % 5 * 0.001)
            await asyncio.sleep(0.003)
            permit.release()

    async def main() -> None:
        for lap in range(10):
            await asyncio.gather(*(work(lap + number) for number in range(20)))

    asyncio.run(main())
    assert in_line(limiter) == 0
    assert_all_come_back(limiter, 4)


def test_cancelled_at_each_await(opened: Open) -> None:
    """B21: after each number of turns of the loop, with the unit released at each of them."""
    limiter = opened(limit=1)

    async def main() -> None:
        for cancel_at, release_at in itertools.product(range(5), range(5)):
            held, task = limiter.admit(), asyncio.create_task(limiter.admit_async(timeout=None))
            for turn in range(6):
                if turn == release_at:
                    held.release()
                if turn == cancel_at:
                    task.cancel()
                await asyncio.sleep(0.001 if turn == release_at else 0)
            if await ended(task) is None:
                task.result().release()
            eventually(lambda: limiter.in_flight == 0, "nothing is in flight")

    asyncio.run(main())
    assert_all_come_back(limiter, 1)


async def longest_gap(beside: Coroutine[Any, Any, object]) -> float:
    """Between two ticks of a ticker on this loop, in seconds, while that goes on."""
    going = asyncio.create_task(beside)
    gap, last = 0.0, time.monotonic()
    while not going.done():
        await asyncio.sleep(0.001)
        now = time.monotonic()
        gap, last = max(gap, now - last), now
    await going
    return gap


async def jitter(of: Callable[[], Coroutine[Any, Any, float]]) -> float:
    """By how much that gap is longer than beside nothing: least against least, as other processes disturb some."""
    laps = [(await longest_gap(asyncio.sleep(0.03)), await of()) for _ in range(4)]
    return min(busy for _, busy in laps) - min(quiet for quiet, _ in laps)


def test_the_loop_goes_on(opened: Open) -> None:
    """B30: a hundred tasks wait, the holder on the same loop releases, and half of them get a turn."""
    limiter = opened(limit=1)

    async def hand_on(held: hardcap.Permit, tasks: list[Task]) -> None:
        await asyncio.sleep(0.03)
        held.release()
        for task in tasks:
            (await task).release()

    async def crowd() -> float:
        # The unit that somebody was granted who had left may be on its way back from the lap before.
        held = await limiter.admit_async(timeout=DEADLINE)
        tasks = [await joins(limiter, timeout=None) for _ in range(100)]
        assert waiting_threads() == ["hardcap-waiting"]
        gap = await longest_gap(hand_on(held, tasks[:50]))
        for task in tasks[50:]:
            task.cancel()
        for task in tasks[50:]:
            if await ended(task) is None:  # the next in line, right after the last release
                task.result().release()
        return gap

    assert asyncio.run(jitter(crowd)) < JITTER
    assert_all_come_back(limiter, 1)  # and no thread that waits is left


def test_a_loop_that_is_blocked_is_seen() -> None:
    """B30, control: the same measure of a task that keeps the loop for a while in each of its turns."""

    async def block() -> None:
        for _ in range(2):
            time.sleep(3 * JITTER)
            await asyncio.sleep(0)

    assert asyncio.run(jitter(lambda: longest_gap(block()))) > JITTER


def test_two_event_loops_and_a_thread_in_one_line(opened: Open) -> None:
    limiter = opened(limit=1)
    held = limiter.admit()

    async def wait() -> None:
        with await limiter.admit_async(timeout=LONG):
            assert limiter.in_flight == 1

    loops = [threading.Thread(target=asyncio.run, args=(wait(),)) for _ in range(2)]
    with line(limiter) as waiting:
        for loop in loops:
            loop.start()
        until_in_line(limiter, 2)
        thread = waiting.join()
        held.release()
        thread.result(DEADLINE).release()
    for loop in loops:
        loop.join(DEADLINE)
    assert_all_come_back(limiter, 1)


def test_a_loop_closed_while_a_task_waits(opened: Open) -> None:
    """What is granted to it goes on to the next."""
    limiter = opened(limit=1)
    held = limiter.admit()
    loop = asyncio.new_event_loop()
    task = loop.create_task(limiter.admit_async(timeout=None))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    while not in_line(limiter):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    with line(limiter) as waiting:
        after = waiting.join()
        held.release()
        after.result(DEADLINE).release()
    del task
    assert_all_come_back(limiter, 1)


def test_closing_ends_every_wait(limiter: hardcap.Limiter) -> None:
    held = limiter.admit(3)

    async def main() -> None:
        tasks = [await joins(limiter) for _ in range(3)]
        limiter.close()
        assert {type(await ended(task)) for task in tasks} == {hardcap.SegmentClosed}
        with pytest.raises(hardcap.SegmentClosed):
            await limiter.admit_async()

    asyncio.run(main())
    assert held.released


def test_blocking_in_a_running_loop_blocks_it(limiter: hardcap.Limiter) -> None:
    """B30, control: ``admit`` waits in its thread, as it says, and the ticker does not tick."""

    async def main() -> None:
        ticks = 0

        async def ticker() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(ticker())
        await asyncio.sleep(0)
        began = time.monotonic()
        with pytest.raises(hardcap.CapExceeded):
            limiter.admit(4, timeout=0.1)
        assert time.monotonic() - began >= 0.1
        assert ticks == 0
        ticking.cancel()

    asyncio.run(main())
