"""Waiting in threads: who gets in, in which order, and that a wait that ends otherwise holds nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

import hardcap
from hardcap import layout, waiting
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_come_back, waiting_threads
from tests.support.processes import DEADLINE, eventually
from tests.support.waiters import LONG, failed, in_line, line, until_in_line

SHORT = 0.02  # seconds


def test_it_gets_what_is_released_meanwhile(limiter: hardcap.Limiter) -> None:
    held = limiter.admit(3)
    with line(limiter) as waiting:
        waiter = waiting.join(None, 2)
        assert not waiter.done()
        held.release()
        permit = waiter.result(DEADLINE)
    assert permit.amounts == {"requests": 2}
    assert limiter.in_flight == 2
    assert permit.release()
    assert limiter.snapshot().totals.rejected == {"requests": 0}
    assert_all_come_back(limiter, 3)


@pytest.mark.parametrize("timeout", [SHORT, 1e-9])
def test_a_wait_in_vain_counts_once_and_holds_nothing(limiter: hardcap.Limiter, timeout: float) -> None:
    with limiter.admit(3):
        began = time.monotonic()
        with pytest.raises(hardcap.CapExceeded) as caught:
            limiter.admit(2, timeout=timeout)
        assert time.monotonic() - began >= timeout
        assert (caught.value.requested, caught.value.in_flight) == (2, 3)
        assert limiter.snapshot().totals.rejected == {"requests": 1}
        assert in_line(limiter) == 0
    assert_all_come_back(limiter, 3)


@pytest.mark.parametrize("timeout", [0, 0.0, -0.0])
def test_no_time_is_as_reserve(limiter: hardcap.Limiter, timeout: float) -> None:
    with limiter.admit(3, timeout=timeout), pytest.raises(hardcap.CapExceeded):
        limiter.admit(timeout=timeout)
    assert_all_come_back(limiter, 3)


@pytest.mark.parametrize("timeout", [None, 1e300, 10**9])
def test_for_ever(limiter: hardcap.Limiter, timeout: float | None) -> None:
    held = limiter.admit(3)
    with line(limiter) as waiting:
        waiter = waiting.join(timeout=timeout)
        held.release()
        assert waiter.result(DEADLINE).release()


def test_first_come_first_served(opened: Open) -> None:
    limiter = opened(limit=1)
    held = limiter.admit()
    with line(limiter) as waiting:
        waiters = [waiting.join(number) for number in range(5)]
        for waiter in waiters:
            held.release()
            held = waiter.result(DEADLINE)
        held.release()
    assert waiting.arrived == [0, 1, 2, 3, 4]
    assert_all_come_back(limiter, 1)


def test_a_newcomer_goes_behind_those_who_wait(opened: Open) -> None:
    """There is a unit for it, but two are waited for."""
    limiter = opened(limit=2)
    held = limiter.admit()
    with line(limiter) as waiting:
        first = waiting.join("both", 2)
        second = waiting.join("one", 1)
        assert limiter.available == 1
        held.release()
        first.result(DEADLINE).release()
        second.result(DEADLINE).release()
    assert waiting.arrived == ["both", "one"]


def test_nobody_waits_for_one_who_asks_for_something_else(pair: hardcap.Limiter) -> None:
    held = pair.admit(tokens=10)
    with line(pair) as waiting:
        blocked = waiting.join(tokens=1)
        pair.admit(requests=1, timeout=LONG).release()
        assert not blocked.done()
        held.release()
        blocked.result(DEADLINE).release()


def test_nobody_waits_for_one_who_leaves_more_free(limiter: hardcap.Limiter) -> None:
    """Low-priority traffic at the head of the queue does not keep the others out."""
    held = limiter.admit(2)
    with line(limiter) as waiting:
        low = waiting.join(headroom=2)
        limiter.admit(timeout=LONG).release()
        assert not low.done()
        held.release()
        low.result(DEADLINE).release()


def test_one_who_gives_up_makes_way(opened: Open) -> None:
    limiter = opened(limit=2)
    with limiter.admit(), line(limiter) as waiting:
        large = waiting.join(None, 2, timeout=0.2)
        small = waiting.join(None, 1)
        assert isinstance(failed(large), hardcap.CapExceeded)
        small.result(DEADLINE).release()


def test_a_raised_limit_is_noticed(limiter: hardcap.Limiter) -> None:
    with limiter.admit(3), line(limiter) as waiting:
        waiter = waiting.join(None, 2)
        limiter.set_limit(5)
        waiter.result(DEADLINE).release()


def test_closing_ends_every_wait(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(3)
    with line(limiter) as waiting:
        waiters = [waiting.join() for _ in range(3)]
        limiter.close()
        assert {type(failed(waiter)) for waiter in waiters} == {hardcap.SegmentClosed}


def test_retiring_ends_every_wait(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    assert limiter.reserve(3)
    with line(limiter) as waiting:
        waiters = [waiting.join() for _ in range(3)]
        hardcap.unlink(limiter.name, segment_dir, force=True)
        assert {type(failed(waiter)) for waiter in waiters} == {hardcap.SegmentRetired}
    limiter.release(3)


def test_afterwards_it_can_be_waited_again(limiter: hardcap.Limiter) -> None:
    for _ in range(3):
        held = limiter.admit(3)
        with line(limiter) as waiting:
            waiter = waiting.join()
            held.release()
            waiter.result(DEADLINE).release()
    assert_all_come_back(limiter, 3)


@contextlib.contextmanager
def on_alarm(handle: Callable[[], object], due: Callable[[FrameType | None], bool], after: float) -> Iterator[None]:
    """Run a signal handler as soon as it is due, from so many seconds on."""

    def handler(_signal: int, frame: FrameType | None) -> None:
        if over:
            return
        if due(frame):
            handle()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    over: list[bool] = []
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        over.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_BLOCK, [])  # one that came already is handled now
        signal.signal(signal.SIGALRM, before)


def interrupt() -> None:
    raise KeyboardInterrupt


def in_the_wait(frame: FrameType | None) -> bool:
    """Not in the middle of a reservation by the portable backend, which is cut in half by that."""
    return frame is not None and frame.f_code.co_filename == waiting.__file__


def test_an_interrupt_ends_a_blocked_wait(limiter: hardcap.Limiter) -> None:
    """B21: a KeyboardInterrupt in a thread that is blocked in admit."""
    waits = on_alarm(interrupt, lambda _frame: in_line(limiter) == 1, SHORT)
    with limiter.admit(3), waits, pytest.raises(KeyboardInterrupt):
        limiter.admit(timeout=None)
    assert in_line(limiter) == 0
    assert_all_come_back(limiter, 3)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_that_meet_the_grant_lose_nothing(opened: Open) -> None:
    """B21: whichever was first, the unit is held by the permit returned, or by nobody."""
    limiter = opened(limit=1)
    for lap in range(40):
        held = limiter.admit()
        releasing = threading.Timer(SHORT, held.release)
        releasing.start()
        permit = None
        with contextlib.suppress(KeyboardInterrupt), on_alarm(interrupt, in_the_wait, SHORT + (lap - 20) * 1e-4):
            permit = limiter.admit(timeout=None)
        releasing.join()
        held_now = permit is not None
        eventually(lambda held_now=held_now: limiter.in_flight == held_now, "it is the permit's or nobody's")  # type: ignore[misc]
        if permit is not None:
            permit.release()
    assert_all_come_back(limiter, 1)


def test_a_signal_handler_may_wait_too(opened: Open) -> None:
    limiter = opened(limit=1)
    held = limiter.admit()
    answers = []

    def wait() -> None:
        with contextlib.suppress(hardcap.CapExceeded):
            limiter.admit(timeout=SHORT)
        answers.append(in_line(limiter))
        held.release()

    with on_alarm(wait, lambda _frame: in_line(limiter) == 1, SHORT):
        limiter.admit(timeout=LONG).release()
    assert answers == [1]
    assert_all_come_back(limiter, 1)


def test_timeouts_that_meet_the_grant_lose_nothing(opened: Open) -> None:
    """B21: as many waits as there are end when what they wait for is released."""
    limiter = opened(limit=4)

    def work(number: int) -> int:
        try:
            permit = limiter.admit(timeout=0.002 + number % 5 * 0.001)
        except hardcap.CapExceeded:
            return 0
        time.sleep(0.003)
        return permit.release()

    with ThreadPoolExecutor(16) as pool:
        admitted = sum(pool.map(work, range(300)))
    eventually(lambda: not waiting_threads(), "what was granted too late is back")
    totals = limiter.snapshot().totals
    assert (totals.admitted, totals.released) >= (admitted, admitted)
    assert totals.admitted == totals.released
    assert totals.rejected == {"requests": 300 - admitted}
    assert_all_come_back(limiter, 4)


def test_a_cancelled_head_does_not_take_the_wakeup_with_it(opened: Open) -> None:
    """B20: in threads, where a timeout is what cancels."""
    limiter = opened(limit=1)
    for lap in range(10):
        held = limiter.admit()
        with line(limiter) as waiting:
            head = waiting.join(timeout=SHORT)
            next_one = waiting.join()
            time.sleep(SHORT * lap / 10)
            held.release()
            if failed(head) is None:
                head.result().release()
            next_one.result(DEADLINE).release()
    assert_all_come_back(limiter, 1)


def test_a_barger_never_makes_two_holders(opened: Open) -> None:
    """B24: a release, and a reserve in the same turn, while somebody waits for the unit."""
    limiter, other = opened(limit=1), opened(limit=1)
    held = other.admit()
    with line(limiter) as waiting:
        for _ in range(60):
            waiter = waiting.join()
            held.release()
            if other.reserve():
                assert not waiter.done()
                assert other.in_flight == 1
                other.release()
            held = waiter.result(DEADLINE)
            assert limiter.in_flight == 1
            assert not other.reserve()
            assert limiter.available == 0
    held.release()
    assert_all_come_back(limiter, 1)


def test_a_free_unit_goes_to_one_of_two_who_ask_at_once(opened: Open) -> None:
    """B24: never to both; in strict mode never to none."""
    limiter = opened(limit=1)
    barrier = threading.Barrier(2)

    def race(_round: int) -> bool:
        barrier.wait()
        won = limiter.reserve()
        barrier.wait()
        if won:
            limiter.release()
        return won

    with ThreadPoolExecutor(2) as pool:
        wins = [list(answers) for answers in (pool.map(race, [lap, lap]) for lap in range(200))]
    assert {sum(pair) for pair in wins} == {1}
    assert_all_come_back(limiter, 1)


def test_one_thread_serves_them_all_and_goes(limiter: hardcap.Limiter) -> None:
    held = limiter.admit(3)
    with line(limiter) as waiting:
        waiters = [waiting.join(timeout=0.3) for _ in range(8)]
        assert waiting_threads() == ["hardcap-waiting"]
        assert all(isinstance(failed(waiter), hardcap.CapExceeded) for waiter in waiters)
    until_in_line(limiter, 0)
    held.release()
    eventually(lambda: not waiting_threads(), "the thread has ended")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # threads are the point
def test_a_forked_child_has_no_waiters_and_can_wait(opened: Open) -> None:
    limiter = opened(limit=1)
    held = limiter.admit()
    with line(limiter) as waiting:
        waiter = waiting.join()
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.write(write, b"%d" % in_line(limiter))
                with limiter.admit(timeout=LONG):
                    os.write(write, b"in")
            finally:
                os._exit(0)
        held.release()
        waiter.result(DEADLINE).release()
        assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 10) == b"0in"
    os.close(read)
    os.close(write)
    assert_all_come_back(limiter, 1)


def test_what_was_taken_for_nothing_wakes_who_was_refused_it(pair: hardcap.Limiter) -> None:
    """A reservation that finds the second resource full has had the first one for a moment."""
    admission = pair._connection.live()
    pair._connection.arm_bell()
    assert admission.reserve(((0, 1), (1, 11)), 0) == 1
    rung = admission.segment.words.load(layout.BELL) == 0
    assert rung is (pair.mode is hardcap.Mode.strict)  # approximate takes nothing before it knows that all of it fits
