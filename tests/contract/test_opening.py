"""Opening: who comes first decides the shape, who comes later joins it or gets an error, and nobody runs uncapped."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from pathlib import Path

import pytest

import hardcap
from hardcap import layout
from tests.conftest import Spawn
from tests.contract.conftest import Kind, Open
from tests.support.backends import BACKENDS
from tests.support.oracle import assert_all_free
from tests.support.views import warnings

NAMELESS = {"mode": None}


def other_mode(kind: Kind) -> str:
    return "approximate" if kind["mode"] == "strict" else "strict"


def shape(limiter: hardcap.Limiter) -> tuple[str, dict[str, int]]:
    return limiter.mode, limiter.limits


def test_the_name_alone_attaches(pair: hardcap.Limiter, opened: Open) -> None:
    assert pair.reserve(1, tokens=4)
    joined = opened(**NAMELESS)
    assert shape(joined) == shape(pair)
    assert (joined.in_flight, joined.held) == (1, 0)


@pytest.mark.parametrize("slots", [None, 3])
def test_the_name_alone_takes_what_was_configured_when_nobody_is_attached(opened: Open, slots: int | None) -> None:
    with opened(limits={"requests": 2, "tokens": 9}, max_processes=slots) as limiter:
        was = shape(limiter)
        assert limiter.reserve(2, tokens=9)
    with contextlib.ExitStack() as stack:
        again = [stack.enter_context(opened(**NAMELESS)) for _ in range(3)]
        assert [shape(limiter) for limiter in again] == [was] * 3
        assert [limiter.in_flight for limiter in again] == [0] * 3
        if slots:
            with pytest.raises(hardcap.SlotsExhausted):
                opened(**NAMELESS)


@pytest.mark.parametrize("where", [".", "absent"])
def test_the_name_alone_where_nothing_is(opened: Open, segment_dir: Path, where: str) -> None:
    with pytest.raises(hardcap.ConfigError, match=r"limit is None, allowed: .* since there is no segment"):
        opened(directory=segment_dir / where, **NAMELESS)
    assert list(segment_dir.iterdir()) == []


def test_a_limit_without_a_mode_means_strict(opened: Open) -> None:
    with opened(limit=1, mode=None) as limiter:
        assert limiter.mode is hardcap.Mode.strict
    with opened(limit=1, mode="approximate"), pytest.raises(hardcap.ModeMismatch):
        opened(limit=1, mode=None)


def test_another_mode_is_refused_while_somebody_is_attached(limiter: hardcap.Limiter, opened: Open, kind: Kind) -> None:
    other = other_mode(kind)
    for settings in ({"limit": 3}, {}):
        with pytest.raises(hardcap.ModeMismatch, match=f"found mode {kind['mode']}, expected mode {other}") as caught:
            opened(mode=other, **settings)
        assert caught.value.segment.endswith(limiter.name)
    assert_all_free(limiter, 3)


def test_another_mode_when_nobody_is_attached(limiter: hardcap.Limiter, opened: Open, kind: Kind) -> None:
    limiter.close()
    assert_all_free(opened(limit=5, mode="strict"), 5)
    assert opened(**NAMELESS).mode is hardcap.Mode.strict


@pytest.mark.parametrize(
    "limits", [{"requests": 3}, {"tokens": 10, "requests": 3}, {"requests": 3, "bytes": 10}, {"tokens": 3}]
)
def test_other_resources_are_refused_while_somebody_is_attached(
    pair: hardcap.Limiter, opened: Open, limits: dict[str, int]
) -> None:
    with pytest.raises(hardcap.ConfigError, match=f"limits is .*{pair.name}', in order: requests, tokens"):
        opened(limits=limits)
    assert pair.limits == {"requests": 3, "tokens": 10}
    pair.close()
    with opened(limits=limits) as fresh:
        assert list(fresh.limits.items()) == list(limits.items())


def test_the_number_of_slots_is_the_first_openers(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    first = opened(limit=3, max_processes=2)
    opened(limit=3, max_processes=2)
    assert warnings(caplog) == []
    started = time.monotonic()
    with pytest.raises(hardcap.SlotsExhausted, match="found slot table full, 2 live, expected a free slot"):
        opened(limit=3, max_processes=9)
    assert time.monotonic() - started < 10
    (line,) = warnings(caplog)
    assert f"{first.name}' has 2 slots, the first opener's; max_processes=9 has no effect" in line


def test_a_slot_is_free_again_once_its_owner_left(opened: Open) -> None:
    limiter = opened(limit=3, max_processes=2)
    for _ in range(3):
        with opened() as other:
            assert other.reserve(2)
        assert limiter.in_flight == 0


def test_a_refused_opening_leaves_the_segment_as_it_was(opened: Open, segment_dir: Path, kind: Kind) -> None:
    limiter = opened(limit=3, max_processes=1)
    assert limiter.reserve()
    path = segment_dir / limiter.name
    before = path.read_bytes()
    for settings in ({"limit": 3}, {"limit": 3, "mode": other_mode(kind)}, {"limits": {"tokens": 1}}):
        with pytest.raises(hardcap.HardcapError):
            opened(**settings)
    assert path.read_bytes() == before


@pytest.mark.parametrize("backend", ["auto", "atomics", "native"])
def test_a_backend_works_or_says_that_it_is_not_there(opened: Open, segment_dir: Path, backend: str) -> None:
    """There is no silent fallback from one that was named."""
    if backend not in ("auto", *BACKENDS):
        with pytest.raises(hardcap.BackendUnavailable, match=f"'{backend}'|{backend} core"):
            opened(limit=3, backend=backend)
        assert list(segment_dir.iterdir()) == []
        return
    limiter = opened(limit=3, backend=backend)
    assert limiter.snapshot().backend in (BACKENDS if backend == "auto" else [backend])
    assert_all_free(limiter, 3)


def test_two_limiters_of_one_name_are_two_owners(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    assert limiter.reserve()
    with pytest.raises(hardcap.ReleaseError):
        other.release()
    other.close()
    assert limiter.in_flight == limiter.held == 1


def test_a_config_opens_too(name: str, segment_dir: Path, kind: Kind) -> None:
    config = hardcap.Config(name, limit=2, directory=segment_dir, **kind)  # type: ignore[arg-type]
    with hardcap.open(config) as limiter:
        assert shape(limiter) == (kind["mode"], {"requests": 2})
        assert_all_free(limiter, 2)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_limiter_attaches_holding_nothing(limiter: hardcap.Limiter, kind: Kind, protocol: int) -> None:
    assert limiter.reserve(2)
    with pickle.loads(pickle.dumps(limiter, protocol)) as arrived:
        assert (arrived.name, arrived.held, arrived.in_flight) == (limiter.name, 0, 2)
        assert shape(arrived) == shape(limiter)
        assert arrived.reserve()
        assert not limiter.reserve()
    assert limiter.in_flight == limiter.held == 2


def test_a_relative_directory_is_fixed_at_the_opening(
    opened: Open, segment_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(segment_dir)
    limiter = opened(limit=2, directory=".")
    monkeypatch.chdir("/")
    limiter.set_limit(3)
    with pickle.loads(pickle.dumps(limiter)) as arrived:
        assert arrived.limit == 3
    assert os.listdir(segment_dir) == [limiter.name]


FORK = """
def in_child():
    assert limiter.held == 0 and limiter.in_flight == 2, (limiter.held, limiter.in_flight)
    assert permit.released and not permit.release()
    assert limiter.reserve() and not limiter.reserve()
    limiter.release()
    try:
        limiter.release()
    except hardcap.ReleaseError:
        return
    raise AssertionError("released what the parent holds")

permit = limiter.admit(2)
child = os.fork()
if child == 0:
    status = 9
    try:
        in_child()
        status = 0
    finally:
        os._exit(status)
end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
limiter.reap()
end, limiter.held, limiter.in_flight, permit.release(), limiter.in_flight
"""


def test_a_forked_child_holds_nothing(attached: Spawn, kind: Kind) -> None:
    assert attached(limit=3, **kind).run(FORK) == [0, 2, 2, True, 0]


def test_a_damaged_file_that_nobody_uses_says_how_to_start_afresh(opened: Open, name: str, segment_dir: Path) -> None:
    opened(limit=1).close()
    with open(segment_dir / name, "r+b") as file:
        file.seek(layout.H_VERSION * layout.WORD)
        file.write(b"\2")
    with pytest.raises(hardcap.LayoutMismatch, match="nobody is attached: give limit= or limits= to start it afresh"):
        opened()
    assert opened(limit=2).limit == 2
