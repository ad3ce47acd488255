"""Every process test that says ``mode`` runs in both."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["strict", "approximate"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)
