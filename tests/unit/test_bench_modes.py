"""The arithmetic behind ``python -m bench modes``."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from dataclasses import replace

import pytest

from bench.baselines import CONTROL, ORIGINAL, Hardcap
from bench.comparison import Comparison
from bench.figures import Figures, Ordered, percentiles
from bench.machine import describe
from bench.percentiles import summary
from bench.tables import duration
from bench.tasks import Latencies, Pace, Tally


def figures(subject: object = CONTROL, processes: int = 4, **values: object) -> Figures:
    return replace(Figures(subject, processes, limit=10), **values)  # type: ignore[arg-type]


def test_counted_samples_have_the_percentiles_of_the_samples_written_out() -> None:
    dice = random.Random(7)
    for size in (1, 2, 3, 10, 999, 1000, 1001, 5000):
        samples = [dice.choice((1, 5, 5, 70, 8000)) + dice.randrange(3) for _ in range(size)]
        assert list(Ordered(Counter(samples))) == sorted(samples)
        assert percentiles(Counter(samples)) == summary(samples)


def test_nothing_counted_has_no_percentiles() -> None:
    assert percentiles(Counter()) == {}


def test_samples_of_all_processes_and_rounds_are_counted_together() -> None:
    merged = figures()
    slow = Latencies(Counter({900: 1}), Counter({90: 1}), Counter({9: 1}), 2)
    fast = Latencies(Counter({100: 99}), Counter({10: 99}), Counter({1: 99}), 1)
    merged.add_latencies([slow, fast])
    merged.add_latencies([fast, fast])
    assert merged.reserve == Counter({100: 297, 900: 1})
    assert merged.release == Counter({10: 297, 90: 1})
    assert merged.refused == 5
    assert percentiles(merged.reserve)["p99.9"] == 900


def test_pace_is_processor_time_for_the_pair_and_the_whole_window_for_the_throughput() -> None:
    paced = figures()
    paced.add_paces([Pace(100, 0, 0, 900, 500), Pace(300, 0, 100, 1000, 500)])
    assert paced.pair_ns == [2.5]
    assert paced.pairs_per_second == [pytest.approx(400 / 1000e-9)]


def test_a_ratio_is_taken_in_each_round_against_the_same_round() -> None:
    noisy = figures(pair_ns=[200.0, 2000.0, 20.0])
    assert noisy.ratio(figures(pair_ns=[100.0, 1000.0, 10.0])) == 2.0


@pytest.mark.parametrize(("peak", "kept"), [(10, True), (13, True), (14, False)])
def test_an_approximate_mode_keeps_its_promise_up_to_its_formula(peak: int, kept: bool) -> None:
    seen = figures(Hardcap("approximate", "atomics", "/nowhere"), 4)
    seen.add_bursts([Tally(10, 10), Tally(1, 0)], peak)
    assert seen.bound == 13
    assert seen.kept is kept
    assert seen.bursts == Tally(11, 10)


@pytest.mark.parametrize(("peak", "kept"), [(10, True), (11, False)])
def test_strict_mode_keeps_its_promise_up_to_the_limit(peak: int, kept: bool) -> None:
    assert figures(Hardcap("strict", "atomics", "/nowhere"), peak=peak).kept is kept


def test_a_witness_that_misses_the_uncapped_control_makes_the_comparison_unsound() -> None:
    caught, missed = figures(peak=20), figures(peak=10)
    assert Comparison(describe("none"), [caught], []).sound
    blind = Comparison(describe("none"), [caught, missed], [])
    assert blind.blind == [missed]
    assert not blind.sound


def test_the_slots_refuse_by_the_sum_and_write_only_their_own() -> None:
    attach = [ORIGINAL.share(multiprocessing.get_context("spawn"), limit=2, processes=2)] * 2
    first, second = (share(index) for index, share in enumerate(attach))
    assert [first.reserve(), second.reserve(), first.reserve()] == [True, True, False]
    second.release()
    assert first.reserve()
    assert not second.reserve()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.50 us"), (42_000, "42.0 us"), (7.25e6, "7.25 ms"), (3e9, "3.00 s")],
)
def test_durations_have_a_unit(nanoseconds: float, text: str) -> None:
    assert duration(nanoseconds) == text
