"""Claiming slots under readers: a record seen is one owner's, whole."""

from __future__ import annotations

import os
from pathlib import Path

import hardcap
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free

CYCLES = 5000 if os.environ.get("HARDCAP_TEST_FULL") == "1" else 150


def test_no_reader_sees_a_mixed_record(spawn: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B46: three processes claim and free the same slots all the time, two read them; nobody is refused."""
    where = {"name": name, "directory": os.fspath(segment_dir)}
    done = segment_dir.with_suffix(".done")
    claimers, watchers = [spawn() for _ in range(3)], [spawn() for _ in range(2)]
    with hardcap.open(name, limit=2**31 - 1, mode=mode, directory=segment_dir) as observer:
        me = [(process.pid, process.started_at) for process in observer.snapshot().processes]
        for child in claimers + watchers:
            child.run("from tests.process import claims", **where)
        for watcher in watchers:
            watcher.post("claims.watch(name, directory, until)", until=os.fspath(done))
        for claimer in claimers:
            claimer.post("claims.claim_and_free(name, directory, cycles)", cycles=CYCLES)
        owners = {tuple(owner) for claimer in claimers for owner in claimer.answer()} | set(me)
        done.touch()
        for watcher in watchers:
            looks, seen = watcher.answer()
            assert looks > CYCLES // 10
            assert {tuple(owner) for owner in seen} <= owners
        done.unlink()
        totals = observer.snapshot().totals
        assert totals.admitted == totals.released == 3 * CYCLES
        assert sum(totals.rejected.values()) == 0
        assert observer.in_flight == 0


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
