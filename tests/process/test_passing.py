"""A limiter travels to other processes and attaches there by name."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import hardcap
from tests.conftest import Spawn
from tests.process.kinds import each_method
from tests.support.oracle import assert_all_free


@each_method
def test_passing_a_limiter(attached: Spawn, name: str, segment_dir: Path, mode: str, backend: str, method: str) -> None:
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


def test_a_pickle_remembers_the_path(attached: Spawn, segment_dir: Path, name: str) -> None:
    """B36: a process in another directory, as another program, joins the same cap, not a second one."""
    parent = attached(limit=2)
    parent.run("limiter.close()\nos.chdir(os.path.dirname(directory))")
    parent.run("limiter = hardcap.open(name, limit=2, directory=os.path.basename(directory))")
    text = parent.run("import pickle\nlimiter.reserve()\npickle.dumps(limiter).hex()")
    with pickle.loads(bytes.fromhex(text)) as here:
        assert here.in_flight == 1
    assert os.listdir(segment_dir) == [name]
