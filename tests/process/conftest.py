"""Every process test that says ``mode`` runs in both, and its children on both backends."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conftest import Spawn
from tests.process.kinds import Kind, kinds


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode_and_backend" in metafunc.fixturenames:
        metafunc.parametrize("mode_and_backend", kinds(metafunc.function.__name__), ids="-".join)


@pytest.fixture
def mode(mode_and_backend: Kind) -> str:
    return mode_and_backend[0]


@pytest.fixture
def backend(mode_and_backend: Kind) -> str:
    return mode_and_backend[1]


@pytest.fixture
def attached(attached: Spawn, request: pytest.FixtureRequest) -> Spawn:
    """On this run's backend, if the test varies it. Whoever looks on from the test itself may have another."""
    if {"mode_and_backend", "backend"}.isdisjoint(request.fixturenames):
        return attached
    return partial(attached, backend=request.getfixturevalue("backend"))
