"""Limits change while everything runs, for all at once; nothing is blocked, taken away or forgotten."""

from __future__ import annotations

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free, assert_sane
from tests.support.views import warnings


def test_a_new_limit_is_everybodys(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened(limit=3)
    limiter.set_limit(1)
    assert (other.limit, other.limits, other.available) == (1, {"requests": 1}, 1)
    assert [other.reserve(), other.reserve()] == [True, False]
    limiter.set_limit(requests=2)
    assert [other.reserve(), limiter.reserve()] == [True, False]


def test_lowering_below_what_is_in_flight_refuses_until_it_has_drained(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(3)
    limiter.set_limit(1)
    assert (limiter.in_flight, limiter.held, limiter.available) == (3, 3, 0)
    assert_sane(limiter.snapshot())
    for _ in range(3):
        assert not limiter.reserve()
        limiter.release()
    assert_all_free(limiter, 1)


def test_a_limit_of_zero_drains(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit()
    limiter.set_limit(0)
    assert not limiter.reserve()
    assert permit.release()
    assert not limiter.reserve()
    assert (limiter.in_flight, limiter.available, limiter.limit) == (0, 0, 0)
    limiter.set_limit(3)
    assert_all_free(limiter, 3)


def test_opened_with_a_limit_of_zero(opened: Open) -> None:
    assert_all_free(opened(limit=0), 0)


def test_raising_admits(limiter: hardcap.Limiter) -> None:
    assert limiter.reserve(3)
    limiter.set_limit(5)
    assert limiter.reserve(2)
    assert not limiter.reserve()
    limiter.release(5)
    limiter.set_limit(2**31 - 1)
    assert limiter.reserve(2**31 - 1)


def test_limits_of_several_resources(pair: hardcap.Limiter) -> None:
    pair.set_limit(tokens=20)
    assert pair.limits == {"requests": 3, "tokens": 20}
    pair.set_limit(4)
    assert pair.limits == {"requests": 4, "tokens": 20}
    pair.set_limit(5, tokens=6)
    assert pair.limits == {"requests": 5, "tokens": 6}
    assert pair.limit == 5


def test_the_first_resource_is_the_first_configured(opened: Open) -> None:
    limiter = opened(limits={"tokens": 10, "requests": 3})
    assert limiter.reserve(7)
    assert (limiter.limit, limiter.in_flight, limiter.held, limiter.available) == (10, 7, 7, 3)
    assert (
        list(limiter.limits) == [resource.name for resource in limiter.snapshot().resources] == ["tokens", "requests"]
    )
    limiter.set_limit(8)
    assert limiter.limits == {"tokens": 8, "requests": 3}


@pytest.mark.parametrize("configured", [{"limit": 3}, {}])
def test_a_set_limit_outlives_a_restart_with_the_same_configuration(
    limiter: hardcap.Limiter, opened: Open, caplog: pytest.LogCaptureFixture, configured: dict[str, int]
) -> None:
    limiter.set_limit(7)
    for _ in range(2):
        with opened(**configured) as restarted:
            assert restarted.limit == limiter.limit == 7
    assert warnings(caplog) == []


def test_another_configured_limit_becomes_the_limit_and_is_logged(
    limiter: hardcap.Limiter, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    limiter.set_limit(7)
    assert opened(limit=4).limit == limiter.limit == 4
    (line,) = warnings(caplog)
    assert f"{limiter.name}': the configured limit of requests changes from 3 to 4" in line
    limiter.set_limit(9)
    assert opened(limit=4).limit == 9
    assert opened(limit=3).limit == 3


def test_only_the_limits_that_were_configured_otherwise_change(
    pair: hardcap.Limiter, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    pair.set_limit(1, tokens=1)
    other = opened(limits={"requests": 3, "tokens": 11})
    assert other.limits == {"requests": 1, "tokens": 11}
    assert len(warnings(caplog)) == 1


def test_a_fresh_start_forgets_a_set_limit(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    with opened(limit=3) as limiter:
        limiter.set_limit(7)
    with opened(limit=3) as limiter:
        assert limiter.limit == 3
        limiter.set_limit(7)
    assert opened(mode=None).limit == 3
    assert warnings(caplog) == []
