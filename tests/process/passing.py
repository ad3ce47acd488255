"""Passing a limiter to other processes. Run inside a child of the test."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import hardcap

Seen = tuple[int, int, int, bool]


def use(limiter: hardcap.Limiter) -> Seen:
    """What a process sees that got a limiter: its pid, units held, units in flight, whether it got the one left."""
    with limiter:
        return os.getpid(), limiter.held, limiter.in_flight, limiter.reserve()


def _as_argument(limiter: hardcap.Limiter, answers: Any) -> None:
    answers.put(use(limiter))


def _from_queue(limiters: Any, answers: Any) -> None:
    answers.put(use(limiters.get()))


def pass_on(limiter: hardcap.Limiter, method: str) -> list[Seen]:
    """As an argument of a process, through a queue, and through a pool."""
    context: Any = multiprocessing.get_context(method)
    limiters, answers = context.Queue(), context.Queue()
    seen: list[Seen] = []
    for target, arguments in ((_as_argument, (limiter, answers)), (_from_queue, (limiters, answers))):
        process = context.Process(target=target, args=arguments)
        process.start()
        if target is _from_queue:
            limiters.put(limiter)
        seen.append(answers.get())
        process.join()
    with context.Pool(1) as pool:
        seen.append(pool.apply(use, (limiter,)))
        pool.close()
        pool.join()
    for queue in (limiters, answers):
        queue.close()
        queue.join_thread()
    return seen
