"""The first call of a forked child attaches: whoever else calls meanwhile, and whatever ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.cfork import in_child
from tests.support.processes import eventually

THREADS = 4
RESERVE: dict[str, Callable[[hardcap.Limiter], object]] = {
    "plainly": lambda limiter: limiter.reserve(),
    "with an amount": lambda limiter: limiter.reserve(1),
    "with headroom": lambda limiter: limiter.reserve(headroom=1),
}
each_reserve = pytest.mark.parametrize("reserve", RESERVE.values(), ids=RESERVE)


def tried(call: Callable[[], object]) -> object:
    """What it returns, or the name of what it raises."""
    try:
        return call()
    except BaseException as error:
        return type(error).__name__


def start(call: Callable[[], object]) -> tuple[list[object], threading.Thread]:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(tried(call)))
    thread.start()
    return answers, thread


@contextlib.contextmanager
def attaching_waits(limiter: hardcap.Limiter) -> Iterator[None]:
    """Somebody else has the directory's lock."""
    with limiter._connection.place.locked():
        yield


@contextlib.contextmanager
def on_alarm(action: Callable[[], object]) -> Iterator[None]:
    """Have a signal handler do this a little later."""
    signal.signal(signal.SIGALRM, lambda *_: action())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def stop() -> None:
    raise KeyboardInterrupt


@each_reserve
def test_threads_wait_for_the_one_that_attaches(opened: Open, reserve: Callable[[hardcap.Limiter], object]) -> None:
    limiter = opened(limit=THREADS + 1)

    def main() -> list[Any]:
        with attaching_waits(limiter):
            started = [start(lambda: reserve(limiter)) for _ in range(THREADS)]
            time.sleep(0.05)
            early = [answer for answers, _ in started for answer in answers]
        for _, thread in started:
            thread.join()
        return [early, [answer for answers, _ in started for answer in answers], limiter.held]

    assert in_child(main) == [[], [True] * THREADS, THREADS]


@each_reserve
def test_an_exception_while_another_thread_attaches(
    limiter: hardcap.Limiter, reserve: Callable[[hardcap.Limiter], object]
) -> None:
    def main() -> list[Any]:
        with attaching_waits(limiter):
            answers, thread = start(limiter.reserve)
            time.sleep(0.05)
            with on_alarm(stop):
                ended = tried(lambda: reserve(limiter))
        thread.join()
        return [ended, answers, limiter.held]

    assert in_child(main) == ["KeyboardInterrupt", [True], 1]


@each_reserve
def test_no_slot_to_be_had_is_told_to_all_threads(opened: Open, reserve: Callable[[hardcap.Limiter], object]) -> None:
    limiter = opened(limit=THREADS, max_processes=1)

    def main() -> list[Any]:
        with attaching_waits(limiter):
            started = [start(lambda: reserve(limiter)) for _ in range(2)]
        for _, thread in started:
            thread.join()
        return [answer for answers, _ in started for answer in answers]

    assert in_child(main) == ["SlotsExhausted"] * 2


@each_reserve
def test_a_handler_in_the_middle_of_attaching_is_refused(
    limiter: hardcap.Limiter, reserve: Callable[[hardcap.Limiter], object]
) -> None:
    """It cannot wait for the call that it interrupts, and takes no second slot."""

    def main() -> list[Any]:
        told: list[object] = []

        def ask() -> None:
            told.extend([tried(lambda: reserve(limiter)), tried(limiter.admit), tried(lambda: limiter.held)])
            lock.__exit__(None, None, None)

        lock = limiter._connection.place.locked()
        lock.__enter__()
        with on_alarm(ask):
            outer = tried(lambda: reserve(limiter))
        eventually(lambda: len(told) == 3, "the handler asks")
        own = [process for process in limiter.snapshot().processes if process.pid == os.getpid()]
        return [told, outer, tried(lambda: reserve(limiter)), limiter.held, len(own)]

    assert in_child(main) == [[False, "Attaching", "Attaching"], True, True, 2, 1]
