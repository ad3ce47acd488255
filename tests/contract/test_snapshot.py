"""Snapshots: every figure, who holds what, and totals that never go back."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pytest

import hardcap
from tests.contract.conftest import Kind, Open
from tests.support.oracle import assert_sane
from tests.support.views import owner


def test_every_field(pair: hardcap.Limiter, kind: Kind) -> None:
    before = time.time()
    assert pair.reserve(1, tokens=4)
    assert pair.reserve(tokens=1)
    assert not pair.reserve(tokens=6)
    pair.release(tokens=2)
    shown = pair.snapshot()
    assert (shown.name, shown.mode, shown.backend) == (pair.name, kind["mode"], kind["backend"])
    assert shown.mode is pair.mode is hardcap.Mode(kind["mode"])
    assert shown.resources == (
        hardcap.ResourceSnapshot("requests", limit=3, in_flight=1, available=2),
        hardcap.ResourceSnapshot("tokens", limit=10, in_flight=3, available=7),
    )
    process = owner(pair)
    assert before - 60 < process.started_at <= before
    assert process == hardcap.ProcessSnapshot(
        slot=0,
        pid=os.getpid(),
        alive=True,
        held=1,
        amounts={"requests": 1, "tokens": 3},
        admitted=2,
        rejected=1,
        released=1,
        started_at=process.started_at,
        oldest_permit_at=None,
    )
    assert shown.totals == hardcap.Totals(2, {"requests": 0, "tokens": 1}, 1, recovered_owners=0)


def test_two_owners(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    assert limiter.reserve(2)
    assert other.reserve()
    processes = other.snapshot().processes
    assert [(process.slot, process.held, process.alive) for process in processes] == [(0, 2, True), (1, 1, True)]
    assert other.snapshot() == limiter.snapshot()
    limiter.close()
    assert [process.slot for process in other.snapshot().processes] == [1]


@pytest.mark.parametrize("field", ["name", "resources", "totals"])
def test_frozen(limiter: hardcap.Limiter, field: str) -> None:
    shown = limiter.snapshot()
    parts: list[Any] = [*shown.resources, *shown.processes, shown.totals]
    for part in parts:
        first = dataclasses.fields(part)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, first, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(shown, field, None)


def test_totals_count_calls_not_units(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(3)
    assert not limiter.reserve(2)
    assert not limiter.reserve()
    limiter.release(2)
    limiter.release()
    with pytest.raises(hardcap.ReleaseError):
        limiter.release()
    limiter.admit(2).release()
    assert limiter.snapshot().totals == hardcap.Totals(2, {"requests": 2}, 3, recovered_owners=0)


def test_totals_never_go_back(limiter: hardcap.Limiter, opened: Open) -> None:
    for round_number in range(3):
        with opened() as other:
            for _ in range(2):
                assert other.reserve()
            assert not other.reserve(3)
            other.release()
            share = other.snapshot().processes[1]
            assert (share.admitted, share.rejected, share.released) == (2, 1, 1)
        done = round_number + 1
        assert limiter.snapshot().totals == hardcap.Totals(2 * done, {"requests": done}, done, recovered_owners=0)
    assert owner(limiter).admitted == 0


def test_available_is_never_negative(pair: hardcap.Limiter) -> None:
    assert pair.reserve(3, tokens=10)
    pair.set_limit(1, tokens=9)
    assert [resource.available for resource in pair.snapshot().resources] == [0, 0]
    assert pair.available == 0
    assert_sane(pair.snapshot())


def test_seen_from_outside_without_attaching(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    assert limiter.reserve(2)
    with limiter.admit():
        seen = [hardcap.inspect(limiter.name, directory) for directory in (segment_dir, os.fspath(segment_dir))]
        shown = dataclasses.replace(limiter.snapshot(), backend=seen[0].backend)  # whoever looks tells of its own
        assert seen == [shown, shown]
    assert len(limiter.snapshot().processes) == 1


def test_looking_changes_no_byte(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    assert limiter.reserve()
    path = segment_dir / limiter.name
    before = path.read_bytes()
    hardcap.inspect(limiter.name, segment_dir)
    limiter.snapshot()
    assert path.read_bytes() == before


def test_seen_when_nobody_is_attached_any_more(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    assert limiter.reserve()
    totals = limiter.snapshot().totals
    limiter.close()
    shown = hardcap.inspect(limiter.name, segment_dir)
    assert (shown.processes, shown.totals, shown.resources[0].in_flight) == ((), totals, 0)


def test_nothing_to_look_at(name: str, segment_dir: Path) -> None:
    with pytest.raises(hardcap.SegmentError, match=f"{name}': found nothing, expected a segment"):
        hardcap.inspect(name, segment_dir)
    with pytest.raises(hardcap.SegmentError, match="absent"):
        hardcap.inspect(name, segment_dir / "absent")
    with pytest.raises(hardcap.ConfigError, match="name is"):
        hardcap.inspect("../x", segment_dir)
    assert list(segment_dir.iterdir()) == []


def test_reap_finds_nobody_dead(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    assert other.reserve(2)
    assert (limiter.reap(), other.reap()) == (0, 0)
    assert (limiter.in_flight, other.held) == (2, 2)
