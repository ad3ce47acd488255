"""Fixtures for tests of the native core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.witness import Witness


@pytest.fixture
def seen(segment_dir: Path) -> Iterator[Witness]:
    """The witness of a fleet, in the directory of its segment."""
    with closing(Witness(segment_dir / "witness")) as witness:
        yield witness
