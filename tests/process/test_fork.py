"""What a forked child may do with a limiter and permits that it inherited: nothing that touches its parent's."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import hardcap
from tests.conftest import Spawn
from tests.process import forks
from tests.support.forms import FULL
from tests.support.oracle import assert_all_free
from tests.support.processes import eventually

FORKS = 200 if FULL else 20
NO_FORK_WARNING = {"flags": ["-W", "ignore:.*multi-threaded.*:DeprecationWarning"]}  # threads are the point


def test_a_forked_child_gives_back_nothing(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B06: the parent holds both units; its children leave in every way there is; a third process is refused."""
    parent = attached(limit=2, mode=mode, options=NO_FORK_WARNING)
    parent.run("from tests.process import forks\nheld = forks.Held(limiter, 2)\ndel limiter")
    with hardcap.open(name, directory=segment_dir) as third:
        for forking, leaving in itertools.product(forks.WAYS_TO_FORK, forks.WAYS_TO_LEAVE):
            code = f"forks.{forking.__name__}(lambda: forks.{leaving.__name__}(held))"
            assert parent.run(code) == 0, code
            third.reap()
            assert third.in_flight == 2, code
            assert not third.reserve(), code
        assert parent.run("held.permit.release()") is True
        assert_all_free(third, 2)


def test_a_forked_child_has_its_own_slot(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B06: what the child reserves is its own, and comes back when it dies with it. Forks of forks too."""
    parent = attached(limit=4, mode=mode)
    parent.run("from tests.process import forks\nlimiter.reserve()")
    with hardcap.open(name, directory=segment_dir) as third:
        assert parent.run("forks.in_fork(lambda: forks.generations(limiter, depth=2))") == 0
        assert third.in_flight == 4
        assert third.reap() == 3
        assert third.in_flight == parent.run("limiter.held") == 1
        parent.run("limiter.release()")
        assert_all_free(third, 4)


def test_fork_in_the_middle_of_operations(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B06: a fork may come while any other thread is anywhere inside ``reserve`` or ``release``."""
    parent = attached(limit=8, mode=mode, options=NO_FORK_WARNING)
    with hardcap.open(name, directory=segment_dir) as third:
        parent.run("from tests.process import forks")
        assert parent.run("forks.in_the_middle(limiter, forks=forks_made)", forks_made=FORKS) == [0] * FORKS
        assert_all_free(third, 8)


def test_a_parent_that_dies_is_recovered_while_its_child_lives(
    attached: Spawn, name: str, segment_dir: Path, mode: str
) -> None:
    """B06: a forked child, alive and idle, does not keep its dead parent's units."""
    parent = attached(limit=2, mode=mode)
    with hardcap.open(name, directory=segment_dir) as third:
        orphan = parent.run("limiter.reserve(2)\nif not (pid := os.fork()):\n    os.read(0, 1)\npid")
        assert not third.reserve()
        parent.kill()
        eventually(lambda: third.reap() == 1, "the child lets go of what it inherited, as soon as it runs")
        os.kill(orphan, 0)
        assert_all_free(third, 2)
