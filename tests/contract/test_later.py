"""What is not there yet says so, and changes nothing."""

from __future__ import annotations

import asyncio

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.oracle import assert_all_free
from tests.support.views import nothing_changes


@pytest.mark.parametrize("timeout", [0.2, 1, None])
def test_waiting(limiter: hardcap.Limiter, timeout: float | None) -> None:
    with nothing_changes(limiter), pytest.raises(NotImplementedError, match="waiting is not there yet: use timeout=0"):
        limiter.admit(timeout=timeout)


@pytest.mark.parametrize("timeout", [0, 0.0, -0.0])
def test_not_waiting_is_there(limiter: hardcap.Limiter, timeout: float) -> None:
    with limiter.admit(timeout=timeout):
        assert limiter.in_flight == 1


def test_admit_async(limiter: hardcap.Limiter) -> None:
    with nothing_changes(limiter), pytest.raises(NotImplementedError, match="admit_async is not there yet"):
        asyncio.run(limiter.admit_async())


def test_adjust(limiter: hardcap.Limiter) -> None:
    with limiter.admit() as permit, pytest.raises(NotImplementedError, match="adjust is not there yet"):
        permit.adjust(requests=2)
    assert_all_free(limiter, 3)


def test_a_dry_run(opened: Open) -> None:
    with pytest.raises(NotImplementedError, match="enforce=False is not there yet"):
        opened(limit=1, enforce=False)
    assert_all_free(opened(limit=1, enforce=True), 1)
