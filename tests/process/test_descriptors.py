"""Descriptors closed by other code, as a daemonizer does: a stranger's, or a new limiter's, are not touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Spawn

OPEN = "hardcap.open(name, limit=1, mode=mode, backend=backend, directory=directory)"


def test_an_old_limiter_never_takes_a_new_ones_lock_for_its_own(
    spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str
) -> None:
    """The new one gets the same numbers, on the same file. Dropping the old one must not open its slot."""
    settings = {"name": name, "mode": mode, "backend": backend, "directory": os.fspath(segment_dir)}
    child, rival = spawn(), spawn()
    close = "read, write = os.dup(0), os.dup(1)\nos.closerange(5, 256)"
    child.run(f"import hardcap, os\nlimiter = {OPEN}\n{close}\nlimiter = {OPEN}", **settings)
    assert child.run("limiter.reserve()")
    rival.run(f"import hardcap\nlimiter = {OPEN}", **settings)
    assert not rival.run("limiter.reserve()")
    assert child.run("limiter.held") == 1


@pytest.mark.parametrize("forked", [False, True])
def test_a_strangers_descriptor_is_left_open(
    spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str, forked: bool
) -> None:
    """Python's mmap closes a duplicate of its own by number, whoever has that number by then."""
    settings = {"name": name, "mode": mode, "backend": backend, "directory": os.fspath(segment_dir)}
    code = """
def daemonize():
    global limiter
    os.closerange(5, 256)
    files = [open("/dev/null") for _ in range(12)]
    limiter.close()
    del limiter
    gc.collect()
    for file in files:
        os.fstat(file.fileno())
        file.close()


def in_a_child():
    pid = os.fork()
    if not pid:
        try:
            daemonize()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1]
"""
    child = spawn()
    child.run(f"import gc, hardcap, os\n{code}\nlimiter = {OPEN}\nlimiter.reserve()", **settings)
    if forked:
        assert child.run("in_a_child()") == 0
    else:
        child.run("daemonize()")
