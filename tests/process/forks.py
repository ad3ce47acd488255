"""Ways to fork while holding a permit, and ways for the child to leave. Run inside a child of the test."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from threading import Thread

import hardcap


class Held:
    """A limiter and a permit of it: the only references there are."""

    def __init__(self, limiter: hardcap.Limiter, amount: int) -> None:
        self.limiter = limiter
        self.permit = limiter.admit(amount)

    def drop(self) -> None:
        del self.limiter, self.permit
        gc.collect()


def by_exception(held: Held) -> None:
    try:
        with held.permit:
            raise LookupError
    except LookupError:
        pass


def by_exit(held: Held) -> None:
    sys.exit(0)


def by_dropping(held: Held) -> None:
    held.drop()


def by_releasing(held: Held) -> None:
    assert held.permit.release() is False
    try:
        held.limiter.release()
    except hardcap.ReleaseError:
        return
    raise AssertionError("released what the parent holds")


def by_closing(held: Held) -> None:
    held.limiter.close()


def by_nothing(held: Held) -> None:
    os._exit(0)


Leaving = Callable[[Held], None]
WAYS_TO_LEAVE: list[Leaving] = [by_exception, by_exit, by_dropping, by_releasing, by_closing, by_nothing]


def in_fork(function: Callable[[], object]) -> int:
    """Run it in a forked child: 0, or the child's exit status. A failed assertion there is 9, on stderr."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        function()
    except Exception:
        traceback.print_exc()
        os._exit(9)
    os._exit(0)


def by_thread(function: Callable[[], object]) -> int:
    """Fork from a second thread."""
    statuses: list[int] = []
    thread = Thread(target=lambda: statuses.append(in_fork(function)))
    thread.start()
    thread.join()
    return statuses[0]


def by_multiprocessing(function: Callable[[], object]) -> int:
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def by_preexec(function: Callable[[], object]) -> int:
    """Between the fork and the exec of a subprocess."""

    def before_exec() -> None:
        with contextlib.suppress(SystemExit):
            function()

    return subprocess.run(["true"], preexec_fn=before_exec).returncode


Forking = Callable[[Callable[[], object]], int]
WAYS_TO_FORK: list[Forking] = [in_fork, by_thread, by_multiprocessing, by_preexec]


def reserve_for_itself(limiter: hardcap.Limiter) -> None:
    """A forked child has a slot of its own, in which it holds nothing but what it reserves."""
    assert limiter.held == 0
    assert limiter.reserve()
    assert limiter.held == 1
    mine = [process for process in limiter.snapshot().processes if process.pid == os.getpid()]
    assert [process.held for process in mine] == [1]


def generations(limiter: hardcap.Limiter, depth: int) -> None:
    """Fork, and fork in the fork: each holds one unit and dies with it."""
    reserve_for_itself(limiter)
    if depth:
        assert in_fork(lambda: generations(limiter, depth - 1)) == 0


def in_the_middle(limiter: hardcap.Limiter, forks: int) -> list[int]:
    """Fork again and again while other threads of this process reserve and release."""
    stopping: list[bool] = []

    def cycle() -> None:
        while not stopping:
            if limiter.reserve():
                limiter.release()

    threads = [Thread(target=cycle) for _ in range(3)]
    for thread in threads:
        thread.start()
    ends = [in_fork(lambda: reserve_and_release(limiter)) for _ in range(forks)]
    stopping.append(True)
    for thread in threads:
        thread.join()
    return ends


def reserve_and_release(limiter: hardcap.Limiter) -> None:
    assert limiter.held == 0
    assert limiter.reserve()
    limiter.release()
    limiter.close()
