"""Death is proved by the kernel: a killed holder's units come back exactly once, a stopped one keeps its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import namespaces
from tests.support.oracle import assert_all_free, assert_sane
from tests.support.processes import Child, RemoteError, eventually


def state(child: Child) -> str:
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_killed_holder_is_recovered_once(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B01: by the next refusal alone, without anybody asking for it; then never again."""
    holder = attached(limit=3, mode=mode)
    with hardcap.open(name, directory=segment_dir) as other:
        holder.run("limiter.reserve(3)")
        assert not other.reserve()
        holder.kill()
        eventually(other.reserve, "the next refusals recover what the dead one held")
        assert other.in_flight == other.held == 1
        assert other.reap() == 0
        other.release()
        assert_all_free(other, 3)


def test_a_zombie_holds_nothing(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B10: killed, and its parent does not wait for it."""
    holder = attached(limit=3, mode=mode)
    with hardcap.open(name, directory=segment_dir) as other:
        holder.run("limiter.reserve(3)")
        holder.kill(reap=False)
        assert other.reap() == 1
        assert state(holder) == "Z"
        assert_all_free(other, 3)


def test_a_stopped_holder_keeps_its_units(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B10: stopped is not dead, however long nothing is heard of it."""
    holder = attached(limit=3, mode=mode)
    with hardcap.open(name, directory=segment_dir) as other:
        holder.run("limiter.reserve(2)")
        holder.stop()
        assert state(holder) == "T"
        assert other.reap() == 0
        assert other.reserve()
        assert not other.reserve()
        assert other.in_flight == 3
        holder.resume()
        assert holder.run("limiter.release(2)\nlimiter.held") == 0
        other.release()
        assert_all_free(other, 3)


@namespaces.needs_namespaces
def test_a_reused_pid_is_another_process(
    attached: Spawn, spawn: Spawn, name: str, segment_dir: Path, mode: str
) -> None:
    """B12: each namespace's first process has pid 1: a dead holder, a stranger, and a new worker in turn."""
    fresh = {"prefix": namespaces.unshare(*namespaces.PIDS)}
    with hardcap.open(name, limit=3, mode=mode, directory=segment_dir) as observer:
        holder = attached(options=fresh)
        assert holder.run("limiter.reserve(3)\nos.getpid()") == 1
        assert observer.reap() == 0
        holder.kill()
        stranger = spawn(**fresh)
        assert stranger.run("import os\nos.getpid()") == 1
        eventually(lambda: observer.reap() == 1, "the dead holder is recovered")
        assert observer.in_flight == 0
        worker = attached(options=fresh)
        assert worker.run("os.getpid(), limiter.held") == [1, 0]
        with pytest.raises(RemoteError, match="ReleaseError"):
            worker.run("limiter.release()")
        assert_all_free(observer, 3)


@namespaces.needs_namespaces
def test_a_live_holder_in_another_pid_namespace_is_alive(
    attached: Spawn, name: str, segment_dir: Path, mode: str
) -> None:
    """B12: its pid means nothing, or another process, to who looks at it from outside; and the reverse."""
    with hardcap.open(name, limit=3, mode=mode, directory=segment_dir) as observer:
        inside = attached(options={"prefix": namespaces.unshare(*namespaces.PIDS)})
        assert inside.run("limiter.reserve()")
        assert observer.reserve()
        assert observer.reap() == inside.run("limiter.reap()") == 0
        assert observer.in_flight == inside.run("limiter.in_flight") == 2
        assert [process.alive for process in observer.snapshot().processes] == [True, True]
        observer.release()
        inside.run("limiter.release()")
        assert_all_free(observer, 3)


def test_a_new_process_takes_over_a_dead_ones_slot(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B12: the slot of a killed holder serves the next one, clean, however often."""
    with hardcap.open(name, limit=4, mode=mode, max_processes=2, directory=segment_dir) as observer:
        for _ in range(3):
            holder = attached()
            assert holder.run("limiter.held") == 0
            assert holder.run("limiter.reserve(4)")
            holder.kill()
        observer.reap()
        assert_sane(observer.snapshot())
        assert observer.snapshot().totals.recovered_owners == 3
        assert_all_free(observer, 4)
