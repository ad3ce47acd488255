"""Opening: who comes first builds, everybody else joins, and a failure leaves nothing behind."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.process.opening import CHANNELS
from tests.support import namespaces
from tests.support.channel import Channel
from tests.support.forms import FULL
from tests.support.oracle import assert_all_free
from tests.support.processes import RemoteError

OPENERS, ROUNDS = (64, 200) if FULL else (8, 15)
LIMIT = 7


def test_everybody_opens_the_same_fresh_name_at_once(spawn: Spawn, segment_dir: Path, mode: str, backend: str) -> None:
    """B16: one file, one cap, no failure, with one of them slowed down to nearly nothing."""
    setup = "from tests.process.opening import open_many"
    crowd = [spawn(prefix=["nice", "-n", "19", "taskset", "-c", "0"])]
    crowd += [spawn() for _ in range(OPENERS - 1)]
    settings = {"limit": LIMIT, "mode": mode, "backend": backend}
    with ExitStack() as stack:
        start, stop, done = (stack.enter_context(Channel(segment_dir / what)) for what in CHANNELS)
        for child in crowd:
            child.run(setup)
            code = "open_many(directory, rounds, **settings)"
            child.post(code, directory=os.fspath(segment_dir), rounds=ROUNDS, settings=settings)
        for gate in [start, stop] * ROUNDS:
            gate.send(b"." * OPENERS)
            done.collect(OPENERS)
    answers = [child.answer() for child in crowd]
    for number in range(ROUNDS):
        inodes, admitted = zip(*(answer[number] for answer in answers), strict=True)
        assert len(set(inodes)) == 1
        assert sum(admitted) == LIMIT if mode == "strict" else sum(admitted) >= LIMIT


FULL_TMPFS = """
import hardcap, os, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", directory]).check_returncode()
"""
ATTACH_IN_ANOTHER = """
limiter = hardcap.open(name, limit=3, directory=directory)
with open(f"{directory}/filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
code = f'''
import hardcap
limiter = hardcap.open({name!r}, directory={directory!r})
assert limiter.reserve(2) and limiter.in_flight == 3 and not limiter.reserve()
limiter.close()
'''
assert limiter.reserve()
subprocess.run([sys.executable, "-W", "error", "-c", code]).returncode, limiter.in_flight
"""


@namespaces.needs_namespaces
def test_a_full_file_system_is_an_error_not_a_signal(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B18: there is room for nothing but the directory: refused with the reason, no name left."""
    child = spawn(prefix=namespaces.unshare(*namespaces.MOUNTS))
    child.run(FULL_TMPFS, directory=os.fspath(segment_dir), size="4k")
    code = "hardcap.open(name, limit=3, max_processes=slots, directory=directory)"
    for slots in (1, 128, 4096):
        with pytest.raises(RemoteError, match=f"{name}.*No space left") as refusal:
            child.run(code, name=name, slots=slots)
        assert refusal.value.kind == "SegmentError"
        assert child.run("os.listdir(directory)") == []
    assert child.finish() == 0


@namespaces.needs_namespaces
def test_attaching_needs_no_room(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B18: what was allocated when it was made stays usable, and open to others, on a full file system."""
    child = spawn(prefix=namespaces.unshare(*namespaces.MOUNTS))
    child.run(FULL_TMPFS, directory=os.fspath(segment_dir), size="64k")
    assert child.run(ATTACH_IN_ANOTHER, name=name) == [0, 1]
    assert child.finish() == 0


@pytest.mark.parametrize("bad", ["x" * 65, "x" * 255, "", ".x", "-x", "x/y", "x\0y", "ä"])
def test_a_bad_name_is_refused_before_any_file_is_touched(tmp_path: Path, bad: str) -> None:
    """B49: one documented limit."""
    with pytest.raises(hardcap.ConfigError, match="name"):
        hardcap.open(bad, limit=1, directory=tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_works(segment_dir: Path) -> None:
    """B49"""
    with hardcap.open("x" * 64, limit=1, directory=segment_dir) as limiter:
        assert_all_free(limiter, 1)


def test_the_number_of_slots_is_the_headers_not_the_files(
    attached: Spawn, name: str, segment_dir: Path, mode: str
) -> None:
    """B49: the last page has room for more slots than were asked for; nobody gets one of those."""
    with hardcap.open(name, limit=9, mode=mode, max_processes=3, directory=segment_dir) as first:
        others = [attached(), attached()]
        with pytest.raises(RemoteError, match=r"SlotsExhausted.*\b3\b.*live"):
            attached()
        assert first.in_flight == 0
        others[0].run("limiter.close()")
        assert attached().run("limiter.reserve()")
        others[1].run("limiter.reserve(2)")
        others[1].kill()
        assert attached().run("limiter.reserve(8)"), "a dead one's slot is taken over, its units are free"
