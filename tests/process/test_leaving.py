"""However a process ends, what it held comes back, and the segment stays for the others. Nothing needs atexit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.process import leaving
from tests.process.kinds import each_method
from tests.support.oracle import assert_all_free
from tests.support.processes import DEADLINE, eventually

CONFIG = """
import hardcap
from tests.process import leaving
config = hardcap.Config(name, **settings)
"""
STATUS = {"by_sigterm": -signal.SIGTERM, "by_sigkill": -signal.SIGKILL}


@each_method
def test_multiprocessing_children_that_leave(
    spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str, method: str
) -> None:
    """B35: return, sys.exit, os._exit, SIGTERM, SIGKILL, and Pool.terminate."""
    parent = spawn()
    settings = {"directory": os.fspath(segment_dir), "backend": backend}
    with hardcap.open(name, limit=8, mode=mode, directory=segment_dir) as observer:
        parent.run(CONFIG, name=name, settings=settings)
        codes = parent.run("leaving.leave_in_every_way(config, method)", method=method)
        assert codes == [STATUS.get(way.__name__, 0) for way in leaving.WAYS]
        observer.reap()
        assert observer.in_flight == 0
        assert parent.run("leaving.terminate_pool(config, method)") == 2
        observer.reap()
        assert [process.pid for process in observer.snapshot().processes] == [os.getpid()]
        assert_all_free(observer, 8)


def test_interrupt_of_the_whole_group(spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str) -> None:
    """B35: Ctrl-C at a terminal, with three processes holding."""
    group = spawn()
    with hardcap.open(name, limit=8, mode=mode, directory=segment_dir) as observer:
        settings = {"directory": os.fspath(segment_dir), "backend": backend}
        group.post(f"{CONFIG}\nleaving.wait_for_interrupt(config)", name=name, settings=settings)
        eventually(lambda: observer.in_flight == 3, "three hold")
        os.killpg(group.pid, signal.SIGINT)
        assert group.process.wait(DEADLINE) == 130
        eventually(lambda: (observer.reap(), observer.in_flight)[1] == 0, "all three are recovered")
        assert_all_free(observer, 8)


@pytest.mark.parametrize("way", [way.__name__ for way in leaving.WAYS] + ["of_group"])
def test_an_attachers_exit_leaves_the_segment(attached: Spawn, name: str, segment_dir: Path, way: str) -> None:
    """B08: the next one finds the creator's holders, whatever became of the one between; no helper process."""
    creator = attached(limit=3)
    creator.run("limiter.reserve()")
    passing = attached()
    passing.run("limiter.reserve(), limiter.release(), limiter.reserve()")
    assert Path(f"/proc/{passing.pid}/task/{passing.pid}/children").read_text() == ""
    if way == "of_group":
        os.killpg(passing.pid, signal.SIGKILL)
    else:
        passing.post(f"from tests.process import leaving\nleaving.{way}()")
        if way == "by_return":
            assert passing.answer() is None
            assert passing.finish() == 0
    passing.process.wait(DEADLINE)
    with hardcap.open(name, directory=segment_dir) as later:
        later.reap()
        assert (later.in_flight, later.limit) == (1, 3)
        creator.run("limiter.release()")
        assert_all_free(later, 3)


def test_processes_that_only_look_leave_no_trace(spawn: Spawn, attached: Spawn, name: str, segment_dir: Path) -> None:
    """B08: ``inspect`` from an unrelated interpreter, which then exits."""
    creator = attached(limit=3)
    creator.run("limiter.reserve()")
    visitor = spawn()
    code = "import hardcap\nhardcap.inspect(name, directory=directory).resources[0].in_flight"
    assert visitor.run(code, name=name, directory=os.fspath(segment_dir)) == 1
    assert visitor.finish() == 0
    assert creator.run("limiter.in_flight, len(limiter.snapshot().processes)") == [1, 1]
