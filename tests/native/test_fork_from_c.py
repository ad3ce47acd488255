"""A fork from C runs no hook of Python's: its child keeps nothing of its parent's and goes on with its own slot."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support.native import needs_native
from tests.support.oracle import assert_all_free
from tests.support.processes import Child

pytestmark = [
    needs_native,
    pytest.mark.parametrize(("mode", "gil"), [("strict", False), ("approximate", True)]),  # neither hangs on the other
]

PARENT = """
import contextlib, gc, os
import hardcap
from tests.support.cfork import Forked
from tests.support.worker import evaluate

limiter = hardcap.open(name, limit=5, mode=mode, directory=directory, backend="native")
assert limiter.reserve(2)
permit = limiter.admit()
"""
FORK = "child = Forked(lambda: evaluate(main, globals()), holding_gil=gil)\nchild.answer()"
Fork = Callable[[str], Any]


@pytest.fixture
def parent(spawn: Spawn, name: str, segment_dir: Path, mode: str) -> Child:
    """Holds two units and a permit."""
    child = spawn()
    child.run(PARENT, name=name, mode=mode, directory=str(segment_dir))
    return child


@pytest.fixture
def fork(parent: Child, gil: bool) -> Fork:
    """Have the parent fork; the value of the code ``main`` in its child, which lives on."""
    return lambda main: parent.run(FORK, main=main, gil=gil)


@pytest.fixture
def watcher(parent: Child, name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, directory=segment_dir) as limiter:
        yield limiter


def held(watcher: hardcap.Limiter) -> list[int]:
    """What each other living process holds."""
    watcher.reap()
    return sorted(one.held for one in watcher.snapshot().processes if one.pid != os.getpid())


def test_the_child_lives_on_and_its_dead_parent_holds_nothing(
    parent: Child, fork: Fork, watcher: hardcap.Limiter
) -> None:
    child = fork("os.getpid()")
    assert watcher.in_flight == 3
    parent.kill()
    assert watcher.reap() == 1
    assert_all_free(watcher, 5)
    os.kill(child, signal.SIGKILL)  # it is still there
    os.waitpid(child, 0)


def test_the_child_holds_nothing_and_works(parent: Child, fork: Fork, watcher: hardcap.Limiter) -> None:
    assert fork("limiter.held, limiter.reserve(2), limiter.reserve()") == [0, True, False]
    assert held(watcher) == [2, 3]
    assert parent.run("child.end(), limiter.held") == [0, 3]
    assert held(watcher) == [3]


FIRST = {
    "reserve": "limiter.reserve()",
    "reserve with arguments": "limiter.reserve(requests=1, headroom=1)",
    "release": "with contextlib.suppress(hardcap.ReleaseError):\n    limiter.release()\n    raise AssertionError",
    "admit": "limiter.admit(2).release()",
    "in_flight": "assert limiter.in_flight == 3",
    "limits": "limiter.limits",
    "set_limit": "limiter.set_limit(5)",
    "snapshot": "assert os.getpid() in [one.pid for one in limiter.snapshot().processes]",
    "reap": "assert limiter.reap() == 0",
    "close": "limiter.close()",
}


def test_any_call_may_be_the_first(parent: Child, fork: Fork, watcher: hardcap.Limiter) -> None:
    for call, code in FIRST.items():
        fork(code)
        assert parent.run("child.end(), limiter.held, permit.released") == [0, 3, False], call
    assert held(watcher) == [3]


def test_a_permit_of_the_parent_neither_releases_nor_warns(parent: Child, fork: Fork, watcher: hardcap.Limiter) -> None:
    assert fork("found = permit.released, permit.release()\ndel permit\ngc.collect()\nfound") == [True, False]
    assert watcher.in_flight == 3
    assert parent.run("child.end(), permit.released, permit.release(), limiter.held") == [0, False, True, 2]


@pytest.mark.parametrize("way", ["limiter.close()", "del limiter, permit\ngc.collect()"], ids=["closes", "drops"])
def test_a_child_that_opens_by_itself_before_it_touches_what_it_inherited(
    parent: Child, fork: Fork, watcher: hardcap.Limiter, way: str
) -> None:
    """Its descriptors get the numbers that its parent's had."""
    opens = "mine = hardcap.open(name, directory=directory)\nassert mine.reserve()"
    assert fork(f"{opens}\n{way}\nmine.held, mine.reserve(), mine.reserve()") == [1, True, False]
    assert held(watcher) == [2, 3]
    assert parent.run("child.end(), limiter.held, permit.release()") == [0, 3, True]
    assert held(watcher) == [2]


def test_a_child_of_the_child(parent: Child, fork: Fork, watcher: hardcap.Limiter) -> None:
    young = "Forked(lambda: (limiter.held, limiter.reserve()), holding_gil=gil)"
    assert fork(f"limiter.reserve()\nyoung = {young}\nyoung.answer(), young.end(), limiter.held") == [[0, True], 0, 1]
    assert parent.run("child.end(), limiter.held") == [0, 3]
    assert held(watcher) == [3]


def test_a_fork_of_python_in_a_child_of_c(parent: Child, fork: Fork, watcher: hardcap.Limiter) -> None:
    code = """
limiter.reserve()
pid = os.fork()
if pid == 0:
    os._exit(limiter.held + 2 * limiter.reserve())
os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), limiter.held
"""
    assert fork(code) == [2, 1]
    assert parent.run("child.end(), limiter.held") == [0, 3]
    assert held(watcher) == [3]
