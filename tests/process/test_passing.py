"""A limiter travels to other processes and attaches there by name; a permit never does."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free


@pytest.mark.parametrize(
    ("mode", "method"),
    [("strict", "fork"), ("strict", "spawn"), ("strict", "forkserver"), ("approximate", "fork")],
)
def test_passing_a_limiter(attached: Spawn, name: str, segment_dir: Path, mode: str, method: str) -> None:
    """B36: under every start method the child holds nothing at first, and shares the cap."""
    parent = attached(limit=2, mode=mode)
    parent.run("from tests.process import passing\nlimiter.reserve()")
    with hardcap.open(name, directory=segment_dir) as observer:
        seen = parent.run("passing.pass_on(limiter, method)", method=method)
        pids = {pid for pid, *_ in seen}
        assert parent.pid not in pids
        assert len(pids) == len(seen) == 3
        # The one before is gone, or not quite: its unit comes back at the refusal.
        assert all(held == 0 and in_flight in (1, 2) for _, held, in_flight, _ in seen)
        assert seen[0][3]
        parent.run("limiter.release()")
        observer.reap()
        assert_all_free(observer, 2)


def test_a_pickle_carries_no_units(segment_dir: Path, name: str, mode: str) -> None:
    """B36: two limiters of one name in one process are two owners."""
    with hardcap.open(name, limit=3, mode=mode, directory=segment_dir) as limiter:
        limiter.reserve()
        with pickle.loads(pickle.dumps(limiter)) as other:
            assert (other.held, other.in_flight) == (0, 1)
            assert other.reserve(2)
            assert not limiter.reserve()
        assert limiter.in_flight == limiter.held == 1
        limiter.release()
        assert_all_free(limiter, 3)


def test_a_pickle_remembers_the_path(attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    """B36: a process in another directory, as another program, joins the same cap, not a second one."""
    parent = attached(limit=2, mode=mode)
    parent.run("limiter.close()\nos.chdir(os.path.dirname(directory))")
    parent.run("limiter = hardcap.open(name, limit=2, mode=mode, directory=os.path.basename(directory))", mode=mode)
    text = parent.run("import pickle\nlimiter.reserve()\npickle.dumps(limiter).hex()")
    with pickle.loads(bytes.fromhex(text)) as here:
        assert here.in_flight == 1
    assert os.listdir(segment_dir) == [name]


def test_a_permit_is_never_two(attached: Spawn, mode: str) -> None:
    """B36: neither pickled nor copied."""
    child = attached(limit=2, mode=mode)
    child.run("from tests.process import passing\npermit = limiter.admit()")
    assert child.run("passing.refusals_to_copy(permit)") == ["TypeError"] * 3
    assert child.run("permit.release(), permit.release(), limiter.held") == [True, False, 0]
