"""Calls that an exception ends in their middle leave nothing behind that outlasts them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import hardcap
from hardcap import locks, removing
from tests.support.backends import BACKENDS

every_kind = pytest.mark.parametrize(
    ("mode", "backend"), [(mode, backend) for mode in ("strict", "approximate") for backend in BACKENDS]
)


def down(frames: int, call: Callable[[], object]) -> object:
    return call() if frames == 0 else down(frames - 1, call)


@every_kind
def test_near_the_recursion_limit_nothing_hangs(name: str, segment_dir: Path, mode: str, backend: str) -> None:
    """RecursionError is a RuntimeError: whoever retries on the one must not retry on the other."""
    with hardcap.open(name, limit=1000, mode=mode, backend=backend, directory=segment_dir) as limiter:
        room = sys.getrecursionlimit()

        def reserve_and_release() -> None:
            limiter.reserve()
            limiter.release()

        failures = 0
        for frames in range(room - 150, room):
            try:
                down(frames, reserve_and_release)
            except (RecursionError, hardcap.ReleaseError):
                failures += 1
        assert failures


@every_kind
def test_a_visit_that_a_signal_ends_does_not_keep_the_slot(
    name: str, segment_dir: Path, mode: str, backend: str
) -> None:
    class Stop(Exception):
        pass

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    settings = {"mode": mode, "backend": backend, "directory": segment_dir}
    with hardcap.open(name, limit=1, **settings) as other:  # type: ignore[arg-type]
        limiter = hardcap.open(name, limit=1, **settings)  # type: ignore[arg-type]
        assert limiter.reserve()
        try:
            for lap in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 2e-5 + lap * 1e-6)
                    while True:
                        limiter.in_flight  # noqa: B018
                        signal.pthread_sigmask(signal.SIG_BLOCK, [])  # looks for one that was let lie
                except Stop:
                    continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        limiter.close()
        assert other.in_flight == 0


def test_a_sweep_whose_end_is_interrupted_is_not_the_last(
    name: str, segment_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        calls = []
        drop_all = locks.drop_all

        def interrupted(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 2:  # the one at the end
                raise KeyboardInterrupt
            drop_all(descriptor)

        monkeypatch.setattr(locks, "drop_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            limiter.reap()
        pid = os.fork()
        if not pid:
            os._exit(not limiter.reserve())
        assert os.waitpid(pid, 0)[1] == 0
        assert limiter.reap() == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_force_that_fails_changes_nothing_and_can_be_repeated(
    name: str, segment_dir: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hardcap.open(name, limit=1, backend=backend, directory=segment_dir) as limiter:
        monkeypatch.setattr(removing, "_map_to_retire", lambda *_: (_ for _ in ()).throw(OSError(24, "no descriptor")))
        with pytest.raises(hardcap.SegmentError, match="EMFILE"):
            hardcap.unlink(name, segment_dir, force=True)
        monkeypatch.undo()
        assert limiter.reserve()
        limiter.release()
        assert hardcap.inspect(name, segment_dir).resources[0].limit == 1
        hardcap.unlink(name, segment_dir, force=True)
        with pytest.raises(hardcap.SegmentRetired):
            limiter.reserve()


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_between_the_flag_and_the_limits_of_a_force(name: str, segment_dir: Path, backend: str) -> None:
    """The next opener finishes it: the old users must not go on beside the new ones."""
    with hardcap.open(name, limit=1, backend=backend, directory=segment_dir) as old:
        with open(segment_dir / name, "r+b") as file:
            file.seek(16)
            file.write(b"\1")  # the flag, and nothing else
        with hardcap.open(name, limit=1, backend=backend, directory=segment_dir) as new:
            assert new.reserve()
            with pytest.raises(hardcap.SegmentRetired):
                old.reserve()
