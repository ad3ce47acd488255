"""Processes that hold one unit and leave without giving it back, each in its own way. Run inside children."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import hardcap

_kept: list[hardcap.Limiter] = []  # nothing is dropped before the process ends


def by_return() -> None:
    pass


def by_sys_exit() -> None:
    sys.exit(0)


def by_os_exit() -> None:
    os._exit(0)


def by_sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def by_sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


WAYS = [by_return, by_sys_exit, by_os_exit, by_sigterm, by_sigkill]


def hold(config: hardcap.Config) -> None:
    """Attach, reserve one unit, keep it."""
    _kept.append(hardcap.open(config))
    assert _kept[-1].reserve()


def hold_and_leave(config: hardcap.Config, way: str) -> None:
    hold(config)
    globals()[way]()


def leave_in_every_way(config: hardcap.Config, method: str) -> list[int | None]:
    """One process of this start method after the other: their exit codes."""
    context: Any = multiprocessing.get_context(method)
    codes: list[int | None] = []
    for way in WAYS:
        process = context.Process(target=hold_and_leave, args=(config, way.__name__))
        process.start()
        process.join()
        codes.append(process.exitcode)
    return codes


def terminate_pool(config: hardcap.Config, method: str) -> int:
    """Terminate a pool whose workers hold: how many they were."""
    with multiprocessing.get_context(method).Pool(2, initializer=hold, initargs=(config,)) as pool:
        pool.map(time.sleep, [0.001] * 4)
        while hardcap.inspect(config.name, config.directory).resources[0].in_flight < 2:
            time.sleep(0.001)
    return 2


def wait_for_interrupt(config: hardcap.Config) -> None:
    """Hold in forked processes until Ctrl-C, which a terminal sends to the whole group."""
    for _ in range(2):
        if not os.fork():
            break
    try:
        hold(config)
        signal.pause()
    except KeyboardInterrupt:
        sys.exit(130)
