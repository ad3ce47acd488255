"""The knee that figures have, and that it is not proposed where they do not show it."""

from __future__ import annotations

import argparse
import random
import socket
from collections.abc import Callable, Sequence

import pytest

from bench import suggest
from bench.knee import Step, judge, knee
from bench.results import Unusable
from bench.spans import WINDOWS, Span, steps
from bench.steady import Answer
from bench.suggest_runs import below, coarse
from bench.target import look_up

LEVELS = (1, 2, 4, 6, 8, 9, 10, 12, 16, 32, 64)
ALONE = 0.02  # seconds of a request that nobody disturbs

Curve = Callable[[int], float]


def at_once(capacity: float) -> Curve:
    """A service that works on so many at once, and no more."""
    return lambda level: min(level, capacity) / ALONE


def curve(throughput: Curve, noise: float = 0.0, driver: float = 0.1) -> list[Step]:
    """What a closed loop measures, by Little's law."""
    draw = random.Random(1)
    return [
        Step(level, [rate * draw.uniform(1 - noise, 1 + noise) for _ in range(12)], [level / rate], 0.0, driver)
        for level in LEVELS
        for rate in (throughput(level),)
    ]


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("capacity", [2, 8, 10, 16])
def test_the_capacity_is_proposed(capacity: int, noise: float) -> None:
    verdict = judge(curve(at_once(capacity), noise))
    assert verdict.limit is not None
    assert verdict.low <= verdict.limit <= verdict.high
    assert abs(verdict.limit - capacity) <= capacity / 8
    assert verdict.served_at_once == pytest.approx(capacity, rel=0.1)
    assert verdict.sure


def test_a_throughput_that_falls_again_has_a_knee() -> None:
    assert judge(curve(lambda level: min(level, 8, 64 / level) / ALONE)).limit == 8


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_throughput_that_rises_has_none(noise: float) -> None:
    verdict = judge(curve(at_once(1000), noise))
    assert (verdict.limit, verdict.reason) == (
        None,
        "not sure: throughput still rises at 64 in flight, the most allowed",
    )
    assert judge(curve(at_once(1000), noise), "service errors: all").reason == "service errors: all"
    assert judge([], "service errors: all").reason == "service errors: all"


@pytest.mark.parametrize("factor", [0.2, 0.5])
def test_a_disturbance_is_noise(factor: float) -> None:
    """One level was measured while something else ran, or all of them were."""
    verdict = judge(curve(lambda level: at_once(16)(level) * (factor if level == 12 else 1)))
    assert (verdict.limit, verdict.reason) == (
        None,
        "not sure, noise: 12 in flight bring less than fewer do, and than more",
    )
    verdict = judge(curve(at_once(8), noise=1 - factor))
    assert verdict.limit is None
    assert verdict.reason.startswith("not sure, noise: ")


def test_what_speaks_against_a_proposal_is_told() -> None:
    soft = judge(curve(lambda level: level / ALONE / (1 + 0.3 * (level - 1))))
    assert soft.limit is not None
    assert "by Little's law" in soft.doubts[0]
    (driver,) = judge(curve(at_once(8), driver=0.97)).doubts
    assert "97% of a core" in driver
    assert judge(curve(at_once(8)), "service errors: some").doubts == ("service errors: some",)


def test_the_knee() -> None:
    assert knee({1: 50.0, 2: 94.9, 4: 95.0, 8: 100.0, 16: 60.0}) == 4


@pytest.mark.parametrize(("most", "levels"), [(2, [1, 2]), (8, [1, 2, 4, 8]), (10, [1, 2, 4, 8, 10])])
def test_levels_rise_to_the_most(most: int, levels: Sequence[int]) -> None:
    assert coarse(most) == levels


def test_a_closer_look() -> None:
    assert below(16, [1, 2, 4, 8, 16, 32]) == [8, 10, 12, 14, 16]
    assert set(below(10, [4, 8, 10, 12])) == {8, 9, 10}
    assert below(1, [1, 2]) == [1]


def test_a_request_counts_where_its_time_lies() -> None:
    """One after another for ten seconds, of which two lie in the span: each window has its share of them."""
    answers = [Answer(start, start + 2.5, "") for start in (0.0, 2.5, 5.0, 7.5)]
    (step,) = steps([Span(1, 4.0, 6.0, 0.1)], answers)
    assert step.windows == pytest.approx([0.4] * WINDOWS)
    assert step.latencies == [2.5], "of the one that came in the span"


def test_a_failure_is_no_throughput() -> None:
    spans = [Span(2, 0.0, 2.0, 0.1), Span(1, 2.0, 4.0, 0.3), Span(2, 4.0, 6.0, 0.2)]
    answers = [Answer(at, at + 1, "status 500" if at % 2 else "") for at in range(6)]
    one, two = steps(spans, [*answers, Answer(0.0, 1.5, "")])
    assert (one.in_flight, one.failed, one.driver) == (1, 0.5, 0.3)
    assert (two.in_flight, two.driver, len(two.windows)) == (2, 0.2, 2 * WINDOWS)
    assert one.windows == pytest.approx([1.0] * (WINDOWS // 2) + [0.0] * (WINDOWS // 2))


@pytest.mark.parametrize("url", ["http://127.0.0.1:80", "http://[::1]:80/path", "http://127.1/"])
def test_loopback_is_allowed(url: str) -> None:
    assert look_up(url, allow_remote=False).addresses


@pytest.mark.parametrize("url", ["http://192.0.2.1/", "https://[2001:db8::1]/", "http://0.0.0.0/"])
def test_elsewhere_must_be_asked_for(url: str) -> None:
    with pytest.raises(Unusable, match="allowed: loopback"):
        look_up(url, allow_remote=False)
    assert look_up(url, allow_remote=True).addresses


def test_a_name_is_judged_by_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name server on loopback answers such a thing, so the resolver is told what to say."""

    def resolved(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("127.0.0.1", "192.0.2.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(Unusable, match="'both' is at 192"):
        look_up("http://both/", allow_remote=False)
    assert look_up("http://both/", allow_remote=True).addresses == ("127.0.0.1", "192.0.2.1")


@pytest.mark.parametrize("url", ["", "127.0.0.1", "http://", "http:///path", "http://127.0.0.1:99999/", "file:///x"])
def test_no_such_url(url: str) -> None:
    with pytest.raises(Unusable):
        look_up(url, allow_remote=True)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--most=1", "most is 1, allowed: 2 to 1024"),
        ("--seconds=nan", "seconds is nan, allowed: more than 0"),
        ("--timeout=0", "timeout is 0, allowed: more than 0"),
        ("--header=x", "header is 'x', allowed: 'NAME: VALUE'"),
        ("--header=x: a\nb", "header is 'x: a"),
        ("--post=/absent/body", "cannot read '/absent/body'"),
    ],
)
def test_an_option_that_is_not_allowed(option: str, told: str) -> None:
    parser = argparse.ArgumentParser()
    suggest.configure(parser)
    with pytest.raises(Unusable) as refused:
        suggest.run(parser.parse_args(["--url=http://127.0.0.1/", option]))
    assert str(refused.value).startswith(told)
