"""The arithmetic behind ``python -m bench report``."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from bench.figures import distribution
from bench.recovery import missed
from bench.report_pictures import PICTURES
from bench.report_style import apart
from bench.report_tables import TABLES

GOOD: dict[str, dict[str, Any]] = {
    "hardcap": {"held_by_killed": 3, "peak_after_kill": 10, "back_after_seconds": 0.1, "capacity_after": 10},
    "semaphore": {"held_by_killed": 4, "peak_after_kill": 6, "back_after_seconds": None},
}


def test_every_picture_has_its_figures() -> None:
    assert TABLES.keys() == {picture.name for picture in PICTURES}


def test_labels_are_moved_apart_and_no_further() -> None:
    assert apart([], 1) == []
    assert apart([1.0, 5.0], 1) == [1.0, 5.0]
    moved = apart([1.0, 1.1, 1.2, 9.0], 1)
    assert all(low + 1 <= high + 1e-9 for low, high in pairwise(moved))


def test_every_duration_is_in_the_bin_whose_edges_enclose_it() -> None:
    counts = Counter({0: 1, 1: 2, 10: 3, 11: 4, 995: 5})
    bins = distribution(counts)
    assert sum(count for _, count in bins) == counts.total()
    assert dict(bins)[10.0] == 7
    assert bins[0] == (1.0, 3)
    assert all(low < high for (low, _), (high, _) in pairwise(bins))
    assert bins[-1][0] <= 995
    assert distribution(Counter()) == []


def test_as_expected_nothing_is_missed() -> None:
    assert list(missed(GOOD, 10)) == []


@pytest.mark.parametrize(
    ("run", "figure", "value", "line"),
    [
        ("hardcap", "held_by_killed", 0, "hardcap: 10 were never in flight, so no worker was killed"),
        ("hardcap", "back_after_seconds", None, "hardcap: 10 in flight after the kill, expected 10 again"),
        ("hardcap", "capacity_after", 7, "hardcap: 7 units can be reserved afterwards, expected exactly 10"),
        ("semaphore", "peak_after_kill", 7, "semaphore: 7 in flight after the kill, expected at most 6"),
    ],
)
def test_a_figure_that_is_not_as_expected(run: str, figure: str, value: int | None, line: str) -> None:
    measured = copy.deepcopy(GOOD)
    measured[run][figure] = value
    assert list(missed(measured, 10)) == [line]
