"""Several users on one host: a segment is its owner's alone, unless shared on purpose."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import namespaces
from tests.support.objects import STRANGER
from tests.support.oracle import assert_all_free
from tests.support.processes import Child, RemoteError

GROUP = 65533
MEMBERS = (65531, 65532)
UMASKS = """
import threading
stopping = []
def flip():
    while not stopping:
        os.umask(0o077)
        os.umask(0)
thread = threading.Thread(target=flip)
thread.start()
"""
STOP_FLIPPING = "stopping.append(True)\nthread.join()"


def mode_of(directory: Path) -> int:
    """The permission bits of the one file there."""
    (file,) = directory.iterdir()
    return stat.S_IMODE(file.stat().st_mode)


def stranger(spawn: Spawn, *, user: int = STRANGER, group: int = STRANGER, groups: Sequence[int] = ()) -> Child:
    """A child that has become another user, for good."""
    child = spawn()
    code = "import hardcap, os\nfrom hardcap.words import require_atomics\nfrom tests.process import forks"
    child.run(f"{code}\n_ = require_atomics('')")  # while it may still read them and load their libraries
    child.run("os.setgroups(groups)\nos.setgid(group)\nos.setuid(user)", group=group, user=user, groups=groups)
    assert child.run("os.getresuid()") == [user] * 3
    return child


def test_default_permissions_whatever_the_umask(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B38: 0600, and the process's umask is left alone."""
    child = spawn()
    child.run("import hardcap, os", name=name, directory=os.fspath(segment_dir))
    for umask in (0, 0o022, 0o077, 0o777):
        child.run("os.umask(umask)\nlimiter = hardcap.open(name, limit=1, directory=directory)", umask=umask)
        assert mode_of(segment_dir) == 0o600
        assert child.run("limiter.close()\nhardcap.unlink(name, directory)\nos.umask(0)") == umask


def test_permissions_asked_for_are_exactly_those_that_result(spawn: Spawn, name: str, tmp_path: Path) -> None:
    """B38: while another thread changes the umask all the time."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o770)
    shared.chmod(0o770)
    child = spawn()
    child.run("import hardcap, os\nos.umask(0o077)" + UMASKS)
    code = (
        "hardcap.open(name, limit=1, directory=directory, permissions=0o660).close()\nhardcap.unlink(name, directory)"
    )
    for _ in range(30):
        child.run(code.partition("\n")[0], name=name, directory=os.fspath(shared))
        assert mode_of(shared) == 0o660
        child.run(code.partition("\n")[2])
    child.run(STOP_FLIPPING)


def test_wider_permissions_need_an_explicit_directory(name: str) -> None:
    """B38: before any file is touched."""
    with pytest.raises(hardcap.ConfigError, match="permissions"):
        hardcap.open(name, limit=1, permissions=0o660)


@namespaces.needs_root
def test_another_user_is_refused_and_never_runs_uncapped(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B38: the error names the object, its owner and its mode."""
    os.chmod(segment_dir, 0o755)
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        other = stranger(spawn)
        code = "limiter = hardcap.open(name, limit=1, directory=directory)"
        with pytest.raises(RemoteError, match=f"SegmentError.*{name}") as refusal:
            other.run(code, name=name, directory=os.fspath(segment_dir))
        assert "owner" in str(refusal.value) or "root" in str(refusal.value) or "uid 0" in str(refusal.value)
        assert "600" in str(refusal.value) or "755" in str(refusal.value)
        assert not other.run("'limiter' in globals()")
        assert_all_free(limiter, 1)


@namespaces.needs_root
def test_a_segment_shared_on_purpose(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B38: a group's segment, in a directory of its owner, with permissions said on both sides."""
    os.chown(segment_dir, 0, STRANGER)
    os.chmod(segment_dir, 0o2770)
    settings: dict[str, Any] = {"limit": 3, "directory": os.fspath(segment_dir), "permissions": 0o660}
    with hardcap.open(name, **settings) as limiter:
        other = stranger(spawn)
        other.run("limiter = hardcap.open(name, **settings)", name=name, settings=settings)
        assert other.run("limiter.reserve(2)")
        assert limiter.in_flight == 2
        other.kill()
        assert limiter.reap() == 1
        assert_all_free(limiter, 3)


def members(spawn: Spawn) -> list[Child]:
    """Two users with groups of their own, and one group beside that they have in common."""
    return [stranger(spawn, user=user, group=user, groups=[GROUP]) for user in MEMBERS]


def shared_by_group(directory: Path, mode: int = 0o2770, owner: int = 0) -> dict[str, Any]:
    """What each of the group opens there."""
    os.chown(directory, owner, GROUP)
    os.chmod(directory, mode)
    return {"limit": 3, "directory": os.fspath(directory), "permissions": 0o660}


OPEN = "limiter = hardcap.open(name, **settings)"


@namespaces.needs_root
def test_a_group_shares_whoever_comes_first(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """B38: also after a restart in another order, and in a directory of one of them."""
    both = members(spawn)
    for owner, first in itertools.product((0, *MEMBERS), (0, 1)):
        settings = shared_by_group(segment_dir, owner=owner)
        for order in (first, 1 - first):
            one, other = both[order], both[1 - order]
            place = f"{name}-{owner}-{first}"
            one.run(OPEN, name=place, settings=settings)
            assert (segment_dir / place).stat().st_uid == MEMBERS[order]
            assert_one_cap(one, other, place, settings)


def assert_one_cap(one: Child, other: Child, place: str, settings: dict[str, Any]) -> None:
    """For the one that has opened it, and the other. Both leave."""
    other.run(OPEN, name=place, settings=settings)
    assert one.run("limiter.reserve(2)")
    assert other.run("limiter.in_flight, limiter.reserve(2), limiter.verify()") == [2, False, []]
    assert other.run("hardcap.inspect(name, directory=settings['directory']).resources[0].in_flight") == 2
    for member in (one, other):
        member.run("limiter.close()")


@namespaces.needs_root
@pytest.mark.parametrize(
    ("mode_of_directory", "change"),
    [(0o2777, {}), (0o770, {}), (0o2770, {"permissions": 0o600}), (0o2750, {})],
    ids=["writable by all", "without its group", "for the owner alone", "not writable by the group"],
)
def test_what_no_group_shares_is_refused(
    spawn: Spawn, name: str, segment_dir: Path, mode_of_directory: int, change: dict[str, Any]
) -> None:
    """B38: each of these differs in one thing from what is accepted above."""
    made = shared_by_group(segment_dir, 0o2777 if mode_of_directory == 0o2777 else mode_of_directory | 0o020)
    one, other = members(spawn)
    one.run(OPEN, name=name, settings=made)
    os.chmod(segment_dir, mode_of_directory)
    with pytest.raises(RemoteError, match=f"SegmentError.*user {MEMBERS[0]}.*2770.*permissions=0o660"):
        other.run(OPEN, name=name, settings=made | change)
    assert one.run("limiter.reserve(3)")


@namespaces.needs_root
def test_a_process_that_changed_its_user(spawn: Spawn, name: str, segment_dir: Path, mode: str, backend: str) -> None:
    """B38: dropped its privileges without exec, as servers' workers do: it opens segments of its new user,
    and what it opened before keeps its path and its cap."""
    os.chown(segment_dir, STRANGER, STRANGER)
    child = stranger(spawn)
    settings = {"limit": 2, "mode": mode, "backend": backend, "directory": os.fspath(segment_dir)}
    assert child.run(f"{OPEN}\nlimiter.reserve(), limiter.reap()", name=name, settings=settings) == [True, 0]
    assert child.run("forks.in_fork(lambda: forks.reserve_for_itself(limiter))") == 0
    assert child.run("limiter.reap(), limiter.in_flight") == [1, 1]


@namespaces.needs_root
def test_a_limiter_opened_before_the_change_of_user(attached: Spawn, segment_dir: Path, mode: str) -> None:
    """B38: goes on working, on the same segment, and makes no second cap."""
    child = attached(limit=1, mode=mode)
    child.run(f"os.setgid({STRANGER})\nos.setuid({STRANGER})")
    assert child.run("os.getresuid()") == [STRANGER] * 3
    assert child.run("limiter.reserve(), limiter.reserve(), limiter.in_flight") == [True, False, 1]
    assert child.run("limiter.release()\nlimiter.in_flight") == 0
    assert len(os.listdir(segment_dir)) == 1
