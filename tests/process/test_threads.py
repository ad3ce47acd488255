"""One limiter, many users within one process: threads, loops, signal handlers, the garbage collector."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free
from tests.support.processes import Child

HAMMER = "from tests.process import hammer\nhammer.switch_often()"


def hammering(attached: Spawn, limit: int, mode: str) -> Child:
    child = attached(limit=limit, mode=mode)
    child.run(HAMMER)
    return child


def test_threads_lose_no_update(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B27: two processes of 32 threads; at every quiet point the sum is what the threads keep."""
    pair = [hammering(attached, 300, mode) for _ in range(2)]
    with hardcap.open(name, directory=segment_dir) as observer:
        for child in pair:
            child.post("hammer.rounds(limiter, threads=32, rounds=6)")
        for child in pair:
            for kept, held in child.answer():
                assert kept == held
        assert_all_free(observer, 300)


def test_a_crowd_of_threads_contends_for_little(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B27: 64 threads, and room for three."""
    child = hammering(attached, 3, mode)
    with hardcap.open(name, directory=segment_dir) as observer:
        child.run("hammer.run_together([lambda: hammer.cycle(limiter, 100)] * 64)")
        assert child.run("limiter.held") == 0
        totals = observer.snapshot().totals
        assert totals.admitted == totals.released > 0
        assert totals.admitted + sum(totals.rejected.values()) == 64 * 100
        assert_all_free(observer, 3)


def test_a_loop_and_its_executor(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B27: reserved on the loop and released on a thread, and the reverse."""
    child = hammering(attached, 5, mode)
    with hardcap.open(name, directory=segment_dir) as observer:
        assert child.run("hammer.loop_and_executor(limiter, tasks=30)") == 0
        assert_all_free(observer, 5)


def test_importing_leaves_no_thread_and_no_gil_change(spawn: Spawn) -> None:
    """B27: importing starts nothing, and does not switch the GIL on where it was off."""
    child = spawn()
    child.run("import sys, threading\ngil = getattr(sys, '_is_gil_enabled', lambda: True)\nbefore = gil()")
    assert child.run("import hardcap\n[threading.active_count(), gil() == before]") == [1, True]


def test_one_limiter_in_several_event_loops(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B37: two loops at once and one after them, permits released on other threads than they were taken on."""
    child = hammering(attached, 3, mode)
    with hardcap.open(name, directory=segment_dir) as observer:
        assert child.run("hammer.loops_in_threads(limiter)") == 0
        assert_all_free(observer, 3)


@pytest.mark.parametrize("threads", [0, 3])
def test_a_signal_handler_may_do_anything(
    attached: Spawn, name: str, segment_dir: Path, mode: str, threads: int
) -> None:
    """Reserve, release and snapshot in a handler that interrupts them all: no deadlock, no unit lost."""
    child = hammering(attached, 6, mode)
    with hardcap.open(name, directory=segment_dir) as observer:
        kept, held = child.run("hammer.interrupted(limiter, threads, calls=1000)", threads=threads)
        assert kept == held == observer.in_flight
        assert child.run("limiter.release(kept) if kept else None\nlimiter.held", kept=kept) == 0
        assert_all_free(observer, 6)


def test_forgotten_permits_come_back(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """The collector releases permits in the middle of other reservations: each exactly once."""
    child = hammering(attached, 4, mode)
    with hardcap.open(name, directory=segment_dir) as observer:
        assert child.run("hammer.forgotten(limiter, permits=2000)") == 0
        assert_all_free(observer, 4)


def test_close_while_others_are_inside(attached: Spawn, name: str, segment_dir: Path, mode: str, backend: str) -> None:
    """B48: each thread gets the one clear error; nothing stays in flight, nothing crashes."""
    child = hammering(attached, 3, mode)
    settings = {"directory": os.fspath(segment_dir), "backend": backend}
    with hardcap.open(name, directory=segment_dir) as observer:
        ends = child.run("hammer.closed_under(30, name, **settings)", settings=settings)
        assert ends == ["SegmentClosed"] * (4 * 30)
        assert_all_free(observer, 3)
    assert child.finish() == 0
