"""Bursts at a barrier: what is admitted at once, counted by the independent witness."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.process.burst import CONTROLS, Burst, conduct
from tests.support.backends import BACKENDS
from tests.support.forms import FULL
from tests.support.oracle import assert_all_free

LIMIT, PROCESSES, THREADS = 10, 32, 8
ROUNDS, SMALL_ROUNDS = (500, 2000) if FULL else (100, 100)

START = """
import multiprocessing
from tests.process.burst import Burst, contend
burst = Burst(**fields)
context = multiprocessing.get_context(method)
crowd = [context.Process(target=contend, args=(burst, rounds)) for _ in range(burst.processes)]
for process in crowd:
    process.start()
"""
JOIN = """
for process in crowd:
    process.join()
sorted({process.exitcode for process in crowd})
"""


def holders_of_each_round(spawn: Spawn, burst: Burst, rounds: int, method: str = "fork") -> list[int]:
    """Play a burst with processes started by that method of ``multiprocessing``."""
    parent = spawn()
    parent.run(START, fields=asdict(burst), rounds=rounds, method=method)
    holders = conduct(burst, rounds)
    assert parent.run(JOIN) == [0]
    return holders


@pytest.mark.parametrize("kind", CONTROLS)
def test_the_witness_catches_an_uncapped_burst(spawn: Spawn, segment_dir: Path, kind: str) -> None:
    """B26, control: with no cap, and with a cap that checks and then adds, too many are seen."""
    burst = Burst(os.fspath(segment_dir), PROCESSES, THREADS, LIMIT, kind)
    assert max(holders_of_each_round(spawn, burst, 5)) > LIMIT


def test_a_strict_burst_admits_exactly_the_limit(spawn: Spawn, segment_dir: Path) -> None:
    """B26: 256 threads of 32 processes ask at once, each round, for 10 units."""
    burst = Burst(os.fspath(segment_dir), PROCESSES, THREADS, LIMIT, "strict")
    with hardcap.open(burst.name, limit=LIMIT, directory=segment_dir) as observer:
        assert holders_of_each_round(spawn, burst, ROUNDS) == [LIMIT] * ROUNDS
        assert_all_free(observer, LIMIT)


def test_an_approximate_burst_stays_within_its_bound(spawn: Spawn, segment_dir: Path) -> None:
    """B26: at most limit + (W - 1) * a, with W limiters attached that reserve, a = 1. Never under the limit."""
    burst = Burst(os.fspath(segment_dir), PROCESSES, THREADS, LIMIT, "approximate")
    with hardcap.open(burst.name, limit=LIMIT, mode="approximate", directory=segment_dir) as observer:
        holders = holders_of_each_round(spawn, burst, ROUNDS // 4)
        assert LIMIT <= min(holders) <= max(holders) <= LIMIT + (PROCESSES - 1)
        assert_all_free(observer, LIMIT)


@pytest.mark.parametrize(
    ("method", "backend"), [("fork", BACKENDS[0]), ("spawn", BACKENDS[-1]), ("forkserver", BACKENDS[0])]
)
def test_every_start_method_shares_the_cap(spawn: Spawn, segment_dir: Path, method: str, backend: str) -> None:
    burst = Burst(os.fspath(segment_dir), 4, 2, 3, "strict", backend)
    with hardcap.open(burst.name, limit=3, directory=segment_dir) as observer:
        assert holders_of_each_round(spawn, burst, 20, method) == [3] * 20
        assert_all_free(observer, 3)


@pytest.mark.parametrize(("processes", "limit"), [(2, 1), (6, 3), (3, 6)])
def test_simultaneous_reservations_never_refuse_each_other(
    spawn: Spawn, segment_dir: Path, mode: str, backend: str, processes: int, limit: int
) -> None:
    """B24: of k at once with f units free, at least min(k, f) win; in strict mode exactly so many."""
    burst = Burst(os.fspath(segment_dir), processes, 1, limit, mode, backend)
    holders = holders_of_each_round(spawn, burst, SMALL_ROUNDS)
    assert min(holders) >= min(processes, limit)
    if mode == "strict":
        assert max(holders) == min(processes, limit)
