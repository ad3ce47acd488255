"""``python -m bench peers`` on real processes: an eye that sees who loses units, and what whole figures are.

They are checked where all of them are measured, once: with the report.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import shutil
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import BuiltinMethodType
from typing import Any, Final

import posix_ipc
import pytest
import sysv_ipc

from bench.baselines import Hardcap
from bench.figures import Figures
from bench.laps import LAP_NS, Lap, alternate
from bench.machine import describe
from bench.peer_subjects import AnyFile, EmptyMethod, PosixSemaphore, UndoneSemaphore, WaitingSemaphore
from bench.peers_outcome import Peers
from bench.ratios import Ratio
from bench.redis_counter import SERVERS, served
from bench.report_runs import SMALLEST
from bench.survival import LIMIT, Doing, Survival
from tests.support.commands import interrupted, run, started
from tests.support.processes import eventually

SMALL = ("--quick", *SMALLEST["peers"])
MODES = {"strict/atomics", "approximate/atomics"}
SURVIVORS = MODES | {"sysv_ipc, SEM_UNDO", "portalocker", "filelock"}
LOSERS = {"BoundedSemaphore", "Value and its lock", "posix_ipc", "RawArray slots"}
REDIS: Final = "Redis, Lua script"
METH_FASTCALL: Final = 0x80


def check_peers(results: dict[str, Any], printed: str) -> None:
    """Every figure of every subject, and who survives."""
    check_subjects(results)
    check_survival(results)
    check_goals(results)
    assert results["versions"]["filelock"] == version("filelock")
    assert results["sound"] is True
    assert ("Redis: not installed" in printed) is not redis_is_installed()


def redis_is_installed() -> bool:
    return any(map(shutil.which, SERVERS))


def check_subjects(results: dict[str, Any]) -> None:
    redis = {REDIS} if redis_is_installed() else set()
    rows = {(row["name"], row["processes"]): row for row in results["subjects"]}
    names = SURVIVORS | LOSERS | redis | {"empty C method"}
    assert rows.keys() >= set(itertools.product(names, (1, 2)))
    assert all(0 < row["least_pair_ns"] <= row["pair_ns"] for row in rows.values())
    assert all(row["pairs_per_second"] > 0 for row in rows.values())
    assert results["missing"] == ({} if redis else {"Redis": "not installed"})


def check_survival(results: dict[str, Any]) -> None:
    """The one that is killed holds one unit: who loses it has one less, who dies in the lock takes all."""
    units = {(row["name"], row["doing"]): row["units"] for row in results["survival"]}
    assert {name: units[name, "holding"] for name in SURVIVORS} == dict.fromkeys(SURVIVORS, LIMIT)
    assert {name: units[name, "at work"] for name in MODES} == dict.fromkeys(MODES, LIMIT)
    assert {name: units[name, "holding"] for name in LOSERS} == dict.fromkeys(LOSERS, LIMIT - 1)
    assert units["Value and its lock", "in lock"] == 0
    assert units.get((REDIS, "holding"), LIMIT - 1) == LIMIT - 1
    assert all(row["survived"] is (row["units"] == LIMIT) for row in results["survival"])


def check_goals(results: dict[str, Any]) -> None:
    goals = {goal["name"]: goal for goal in results["goals"]}
    assert len(goals) == len(results["goals"]) == 7
    assert goals["strict / BoundedSemaphore, 2 processes"]["allowed"] == 0.95
    for goal in goals.values():
        assert goal["met"] is (goal["observed"] <= goal["allowed"])
        assert goal["of_least"] > 0
        assert goal["own_ns"] > 0 < goal["other_ns"]


def test_ended_by_a_signal_it_leaves_nothing(segment_dir: Path) -> None:
    with started("bench", "peers", "--quick", "--laps", "3", "--scratch", str(segment_dir)) as process:
        eventually(lambda: any(segment_dir.glob("*/*strict*-2*")), "two processes attach")
        assert interrupted(process) == (130, "bench peers: interrupted")
    assert not list(segment_dir.iterdir())


def test_a_package_that_is_not_there_is_exit_status_2(tmp_path: Path) -> None:
    Path(tmp_path, "sysv_ipc.py").write_text("raise ImportError('no such package')")
    done = run("bench", "peers", *SMALL, env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench peers: cannot import 'sysv_ipc' (no such package); install the extra 'bench'")


@pytest.mark.parametrize(
    ("units", "semaphore", "sound"), [(LIMIT, LIMIT - 1, True), (LIMIT - 1, LIMIT - 1, False), (LIMIT, LIMIT, False)]
)
def test_it_is_sound_only_if_hardcap_survives_where_the_semaphore_does_not(
    units: int, semaphore: int, sound: bool
) -> None:
    survivals = [
        Survival("strict/native", Doing.HOLDING, units),
        Survival("BoundedSemaphore", Doing.HOLDING, semaphore),
    ]
    peers = Peers(describe("native"), [Hardcap("strict", "native", "")], {}, [], survivals, {}, {})
    assert peers.sound is sound


def test_a_ratio_is_of_the_same_rounds_and_of_the_shortest() -> None:
    own = replace(Figures(WaitingSemaphore(), 1, 1), pair_ns=[10.0, 40.0, 30.0])
    other = replace(Figures(WaitingSemaphore(), 1, 1), pair_ns=[20.0, 20.0, 30.0])
    ratio = Ratio("own / other", own, other, allowed=0.9)
    assert (ratio.observed, ratio.of_least, ratio.goal.met) == (1.0, 0.5, False)
    assert (ratio.own_ns, ratio.other_ns) == (30.0, 20.0)


def test_a_lap_counts_what_it_runs_and_is_long_enough() -> None:
    counter = itertools.count()
    lap = Lap("step(counter)", step=next, counter=counter)
    before = next(counter)
    pace = lap()
    assert next(counter) - before - 1 == pace.pairs > 1
    assert pace.ended_ns - pace.began_ns >= LAP_NS / 2
    figures = [Figures(EmptyMethod(), 1, 1) for _ in range(2)]
    alternate([lap, lap], figures, 3, lambda _: None)
    assert [len(figure.pair_ns) for figure in figures] == [3, 3]


class MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int))


class BuiltinMethod(ctypes.Structure):
    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.py_object),
        ("definition", ctypes.POINTER(MethodDef)),
    )


def test_the_empty_method_is_called_as_the_goal_says() -> None:
    method = EmptyMethod().share(multiprocessing.get_context("spawn"), 1, 1)(0).reserve
    assert type(method) is BuiltinMethodType
    assert BuiltinMethod.from_address(id(method)).definition.contents.flags == METH_FASTCALL
    assert method() is None


def test_lock_files_give_as_many_units_as_there_are_files(tmp_path: Path) -> None:
    ours, theirs = AnyFile(tmp_path, 3), AnyFile(tmp_path, 3)
    assert [ours.reserve(), theirs.reserve(), ours.reserve(), theirs.reserve(), ours.reserve()] == [True] * 3 + [
        False
    ] * 2
    ours.release()
    assert theirs.reserve()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("kind", [PosixSemaphore, UndoneSemaphore])
def test_a_semaphore_of_the_kernel_is_gone_in_the_end(kind: type[PosixSemaphore | UndoneSemaphore]) -> None:
    with ExitStack() as leave:
        attach = kind(leave).share(multiprocessing.get_context("spawn"), 1, 1)
        attach(0).close()
    with pytest.raises((posix_ipc.ExistentialError, sysv_ipc.ExistentialError)):
        attach(0)


def test_where_no_server_is_installed_there_is_no_counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with served() as counter:
        assert counter is None
