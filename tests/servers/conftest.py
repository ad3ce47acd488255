"""What the tests of both middlewares ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hardcap


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    limits = {"requests": 2, "tokens": 100}
    with hardcap.open(name, limits=limits, directory=segment_dir) as limiter:
        yield limiter
