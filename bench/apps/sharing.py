"""One limiter shared by the processes of a pool, by threads, or by two event loops. Tasks wait for their turn, and an
independent witness counts how many have it at once.

    python -m bench.apps.sharing fork|forkserver|spawn|threads|loops
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final

import hardcap
from bench.witness import Witness

LIMIT: Final = 2
WORKERS: Final = 4
TASKS: Final = 24
SECONDS: Final = 0.01  # that each has its turn


def task(limiter: hardcap.Limiter, witness: Witness) -> None:
    with limiter.admit(timeout=None):
        token = witness.enter()
        time.sleep(SECONDS)
        witness.leave(token)


async def task_in_a_loop(limiter: hardcap.Limiter, witness: Witness) -> None:
    with await limiter.admit_async(timeout=None):
        token = witness.enter()
        await asyncio.sleep(SECONDS)
        witness.leave(token)


_arguments: tuple[hardcap.Limiter, Witness]  # of the tasks of a pool's process


def _begin(limiter: hardcap.Limiter, path: str) -> None:
    """The limiter has come by pickle, or by fork: either way this process attaches by itself."""
    global _arguments
    _arguments = limiter, Witness(path)


def _task(number: int) -> None:
    task(*_arguments)


def processes(method: str, limiter: hardcap.Limiter, path: str) -> None:
    with multiprocessing.get_context(method).Pool(WORKERS, _begin, (limiter, path)) as pool:
        pool.map(_task, range(TASKS), chunksize=1)
        pool.close()
        pool.join()


def threads(limiter: hardcap.Limiter, witness: Witness) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda number: task(limiter, witness), range(TASKS)))


def loops(limiter: hardcap.Limiter, witness: Witness) -> None:
    async def half() -> None:
        await asyncio.gather(*(task_in_a_loop(limiter, witness) for _ in range(TASKS // 2)))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(asyncio.run, (half(), half())))


def share(how: str, limiter: hardcap.Limiter, path: str) -> int:
    """The most that ran at once."""
    if how not in ("threads", "loops"):
        processes(how, limiter, path)
    with closing(Witness(path)) as witness:
        if how == "threads":
            threads(limiter, witness)
        elif how == "loops":
            loops(limiter, witness)
        return witness.peak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.apps.sharing", description=__doc__.partition("\n\n")[0])
    parser.add_argument("how", choices=[*multiprocessing.get_all_start_methods(), "threads", "loops"])
    how = parser.parse_args().how
    name = f"sharing-{os.getpid()}"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with hardcap.open(name, limit=LIMIT) as limiter:
                peak = share(how, limiter, os.path.join(scratch, "witness"))
        finally:
            hardcap.unlink(name)
    print(f"{how}: {TASKS} tasks, at most {peak} of {LIMIT} at once")


if __name__ == "__main__":
    main()
