"""Claiming slots under readers: a record seen is one owner's, whole."""

from __future__ import annotations

import os
from pathlib import Path

import hardcap
from tests.conftest import Spawn
from tests.support.forms import FULL
from tests.support.oracle import assert_all_free

CYCLES = 1_000_000 if FULL else 2000


CONFIG = """
import hardcap
from tests.process import claims
config = hardcap.Config(name, **settings)
"""


def test_no_reader_sees_a_mixed_record(spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str) -> None:
    """B46: three processes claim and free the same slots all the time, two read them."""
    done = segment_dir / "done"
    settings = {"directory": os.fspath(segment_dir), "backend": backend}
    claimers, watchers = [spawn() for _ in range(3)], [spawn() for _ in range(2)]
    with hardcap.open(name, limit=1, mode=mode, directory=segment_dir) as observer:
        for child in claimers + watchers:
            child.run(CONFIG, name=name, settings=settings)
        for watcher in watchers:
            watcher.post("claims.watch(config, until)", until=os.fspath(done))
        for claimer in claimers:
            claimer.post("claims.claim_and_free(config, cycles)", cycles=CYCLES)
        pids = {child.pid for child in claimers}
        owners = {tuple(owner) for claimer in claimers for owner in claimer.answer()}
        done.touch()
        seen = {tuple(owner) for watcher in watchers for owner in watcher.answer() if owner[0] in pids}
        assert len(seen) > 20, "the watchers have seen much"
        assert seen <= owners
        assert_all_free(observer, 1)


def test_those_who_come_and_go_lose_nothing(
    spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str
) -> None:
    """B46: three processes attach and leave, 50 times each; nobody is refused, every call is in the totals."""
    crowd = [spawn() for _ in range(3)]
    with hardcap.open(name, limit=3, mode=mode, directory=segment_dir) as observer:
        for child in crowd:
            settings = {"directory": os.fspath(segment_dir), "backend": backend}
            child.post(f"{CONFIG}\nclaims.attach_and_leave(config, 50)", name=name, settings=settings)
        assert [child.answer() for child in crowd] == [50] * 3
        totals = observer.snapshot().totals
        assert totals.admitted == totals.released == 150
        assert_all_free(observer, 3)


def test_a_compare_and_swap_that_fails_is_tried_again(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B46: with room for all, contention alone refuses nobody."""
    crowd = [attached(limit=2**31 - 1, mode=mode) for _ in range(3)]
    with hardcap.open(name, directory=segment_dir) as observer:
        for child in crowd:
            child.post("from tests.process import hammer\nhammer.cycle(limiter, 3000)")
        assert [child.answer() for child in crowd] == [3000] * 3
        assert sum(observer.snapshot().totals.rejected.values()) == 0
        observer.set_limit(4)
        assert_all_free(observer, 4)
