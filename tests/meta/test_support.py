"""The checks that other tests rely on see what they are there to see."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import leaks
from tests.support.oracle import assert_all_free, assert_sane
from tests.support.processes import RemoteError


def test_a_child_left_behind_is_seen(spawn: Spawn) -> None:
    before = leaks.children()
    child = spawn()
    assert leaks.children() - before == {f"child {child.pid}"}
    child.kill(reap=False)
    assert leaks.children() - before == {f"child {child.pid}"}, "a zombie too"
    child.process.wait()
    assert leaks.children() == before


def test_an_orphan_is_seen_and_reaped(spawn: Spawn) -> None:
    child = spawn()
    orphan = child.run("import os, time\nif not (pid := os.fork()):\n    time.sleep(600)\npid")
    child.kill()
    assert f"child {orphan}" in leaks.children()


def test_a_thread_left_behind_is_seen() -> None:
    before, done = leaks.threads(), threading.Event()
    thread = threading.Thread(target=done.wait, name="forgotten")
    thread.start()
    assert [text for text in leaks.threads() - before if "forgotten" in text]
    done.set()
    thread.join()
    assert leaks.threads() == before


def test_an_open_segment_is_seen(segment_dir: Path, name: str) -> None:
    before = leaks.segments()
    limiter = hardcap.open(name, limit=1, directory=segment_dir)
    found = leaks.segments() - before
    assert [text for text in found if text.startswith("mapping")]
    assert [text for text in found if text.startswith("descriptor")]
    limiter.close()
    assert leaks.segments() == before


def test_the_oracle_sees_a_unit_that_is_missing(segment_dir: Path, name: str) -> None:
    with hardcap.open(name, limit=3, directory=segment_dir) as limiter:
        assert_all_free(limiter, 3)
        for wrong in (2, 4):
            with pytest.raises(AssertionError):
                assert_all_free(limiter, wrong)
        with limiter.admit(), pytest.raises(AssertionError):
            assert_all_free(limiter, 3)


def test_the_oracle_sees_an_absurd_number(segment_dir: Path, name: str) -> None:
    with hardcap.open(name, limit=3, directory=segment_dir) as limiter:
        snapshot = limiter.snapshot()
        assert_sane(snapshot)
        for absurd in (-1, 2**63):
            totals = dataclasses.replace(snapshot.totals, admitted=absurd)
            with pytest.raises(AssertionError):
                assert_sane(dataclasses.replace(snapshot, totals=totals))


def test_a_childs_errors_come_back(spawn: Spawn) -> None:
    child = spawn()
    with pytest.raises(RemoteError, match="ZeroDivisionError: division by zero"):
        child.run("1 / 0")
    child.post("import time\ntime.sleep(600)")
    with pytest.raises(TimeoutError):
        child.answer(deadline=0.1)
    os.kill(child.pid, 9)
    with pytest.raises(EOFError):
        child.answer()


def test_a_childs_stderr_is_kept(spawn: Spawn) -> None:
    child = spawn(noisy=True)
    child.run("print('to stdout')")
    assert child.finish() == 0
    assert child.stderr == "to stdout\n"
