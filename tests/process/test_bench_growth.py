"""``python -m bench growth`` on real processes: everybody who was killed recovered, and what whole figures are.

They are checked where all of them are measured, once: with the report.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from bench.baselines import Hardcap
from bench.deaths import Reaped, Reaping
from tests.support.commands import interrupted, started
from tests.support.processes import eventually

MODES = ("strict/atomics", "approximate/atomics")


def check_growth(results: dict[str, Any], _printed: str) -> None:
    """Every figure of every mode."""
    check_attached(results)
    check_reaps(results)
    check_goals(results)
    assert results["sound"] is True
    sizes = list(results["segment_bytes"].values())
    assert sizes == sorted(set(sizes))


def check_attached(results: dict[str, Any]) -> None:
    """As many as asked for were attached: the segment says so."""
    rows = {(row["name"], row["attached"]): row for row in results["attached"]}
    assert rows.keys() >= set(itertools.product(MODES, (1, 4, 11)))
    for row in rows.values():
        assert 0 < row["least_pair_ns"] <= row["pair_ns"]
        assert row["attach_ms"] > 0 < row["attach_cpu_ms"]
        assert row["segment_bytes"] == results["segment_bytes"]["512"]


def check_reaps(results: dict[str, Any]) -> None:
    rows = {(row["name"], row["deaths"]): row for row in results["reap"]}
    assert rows.keys() >= set(itertools.product(MODES, (1, 3)))
    for (_, deaths), row in rows.items():
        assert (row["recovered"], row["left"]) == ([deaths, deaths], [0, 0])
        assert row["reap_ms"] > 0 < row["reap_cpu_ms"]


def check_goals(results: dict[str, Any]) -> None:
    backend, goals = results["backend"], results["goals"]
    assert [goal["name"] for goal in goals] == [
        f"strict/{backend}, 11 attached / 1",
        f"approximate/{backend}, 11 attached / 4",
    ]
    assert [goal["allowed"] for goal in goals] == [1.1, 20]
    assert all(goal["met"] is (goal["observed"] <= goal["allowed"]) for goal in goals)


@pytest.mark.parametrize(("recovered", "left", "complete"), [(3, 0, True), (2, 0, False), (3, 1, False)])
def test_one_death_not_recovered_is_seen(recovered: int, left: int, complete: bool) -> None:
    reaps = [Reaped(1.0, 1.0, 3, 0), Reaped(1.0, 1.0, recovered, left)]
    assert Reaping(Hardcap("strict", "native", ""), 3, reaps).complete is complete


def test_ended_by_a_signal_it_leaves_nothing(segment_dir: Path) -> None:
    with started("bench", "growth", "--quick", "--scratch", str(segment_dir)) as process:
        eventually(lambda: any(segment_dir.glob("*/*-256/*")), "the largest segment is there")
        assert interrupted(process) == (130, "bench growth: interrupted")
    assert not list(segment_dir.iterdir())
