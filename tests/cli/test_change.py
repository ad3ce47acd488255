"""``set-limit``, ``reap`` and ``unlink``: what they change under live processes, without a slot of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import hardcap
from tests.cli.conftest import Hardcap
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free

LIMITS = {"requests": 2, "tokens": 100}


def test_a_limit_for_all_processes(run: Hardcap, attached: Spawn, name: str, mode: str) -> None:
    one, other = attached(limits=LIMITS, mode=mode), attached(limits=LIMITS, mode=mode)
    done = run("set-limit", name, "3")
    assert (done.returncode, done.stdout) == (0, f"{name}: limit of requests is 3, was 2\n")
    assert one.run("[limiter.reserve() for _ in range(4)]") == [True, True, True, False]
    done = run("set-limit", name, "tokens=0", "requests=5")
    assert done.stdout.splitlines() == [
        f"{name}: limit of tokens is 0, was 100",
        f"{name}: limit of requests is 5, was 3",
    ]
    assert other.run("limiter.limits, limiter.reserve(tokens=1)") == [{"requests": 5, "tokens": 0}, False]
    assert one.run("len(limiter.snapshot().processes)") == 2


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["-1"], 2, "limit is '-1'"),
        (["many"], 2, "limit is 'many'"),
        (["1.5"], 2, "limit is '1.5'"),
        (["4294967296"], 2, "4294967296"),
        (["nothing=1"], 2, "requests, tokens"),
        (["tokens=1", "tokens=2"], 2, "tokens=1,tokens=2"),
        ([], 2, "usage"),
    ],
)
def test_a_limit_that_is_none(
    run: Hardcap, segment_dir: Path, name: str, given: list[str], status: int, said: str
) -> None:
    with hardcap.open(name, limits=LIMITS, directory=segment_dir) as limiter:
        done = run("set-limit", name, *given)
        assert done.returncode == status
        assert said in done.stderr and "Traceback" not in done.stderr
        assert limiter.limits == LIMITS


@pytest.mark.parametrize("command", [("set-limit", "3"), ("reap",)])
def test_not_where_nobody_would_notice(run: Hardcap, name: str, segment_dir: Path, command: tuple[str, ...]) -> None:
    """A segment without users starts afresh at the next open: what was changed would be lost."""
    hardcap.open(name, limit=2, directory=segment_dir).close()
    before = (segment_dir / name).read_bytes()
    done = run(command[0], name, *command[1:])
    assert done.returncode == 1
    assert "nobody attached" in done.stderr and done.stderr.count("\n") == 1
    assert (segment_dir / name).read_bytes() == before


def test_the_dead_are_recovered_now(run: Hardcap, attached: Spawn, name: str, segment_dir: Path, mode: str) -> None:
    doomed = attached(limit=4, mode=mode)
    doomed.run("limiter.reserve(3)")
    with hardcap.open(name, directory=segment_dir) as observer:
        os.kill(doomed.pid, signal.SIGKILL)
        doomed.process.wait()
        assert run("reap", name).stdout == f"{name}: 1 dead owner recovered\n"
        assert observer.in_flight == 0
        assert run("reap", name).stdout == f"{name}: 0 dead owners recovered\n"
        assert_all_free(observer, 4)


def test_unlinked_only_by_force_while_in_use(run: Hardcap, attached: Spawn, name: str, segment_dir: Path) -> None:
    user = attached(options={"noisy": True}, limit=1)  # it is told in its log
    user.run("limiter.reserve()")
    done = run("unlink", name)
    assert done.returncode == 1 and "processes attached" in done.stderr
    assert (segment_dir / name).exists()
    done = run("unlink", name, "--force")
    assert (done.returncode, done.stdout) == (0, f"{name}: removed\n")
    assert not (segment_dir / name).exists()
    refused = "try:\n    limiter.reserve()\nexcept hardcap.SegmentRetired:\n    told = True\ntold"
    assert user.run(refused) is True


@pytest.mark.parametrize("command", ["set-limit", "reap", "unlink", "verify", "status", "top", "metrics"])
def test_a_name_that_is_none_is_a_mistake_of_use(run: Hardcap, command: str) -> None:
    done = run(command, "a/b", *(["1"] if command == "set-limit" else []))
    assert done.returncode == 2
    assert done.stderr.startswith("hardcap: name is 'a/b'") and done.stderr.count("\n") == 1
