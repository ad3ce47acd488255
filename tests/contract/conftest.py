"""The one suite for both modes and every backend: what these fixtures give is of each kind in turn."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hardcap
from tests.support.backends import BACKENDS

Kind = dict[str, str]
Open = Callable[..., hardcap.Limiter]


@pytest.fixture(params=itertools.product(hardcap.Mode, BACKENDS), ids="-".join)
def kind(request: pytest.FixtureRequest) -> Kind:
    """The settings that tell one implementation from another."""
    mode, backend = request.param
    return {"mode": mode, "backend": backend}


@pytest.fixture
def opened(kind: Kind, name: str, segment_dir: Path) -> Iterator[Open]:
    """Open this test's segment as often as wanted: ``opened(limit=3)``. All are closed in the end."""
    with contextlib.ExitStack() as stack:

        def start(**settings: object) -> hardcap.Limiter:
            given = {"directory": segment_dir, **kind, **settings}
            return stack.enter_context(hardcap.open(name, **given))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def limiter(opened: Open) -> hardcap.Limiter:
    """Three requests at once."""
    return opened(limit=3)


@pytest.fixture
def pair(opened: Open) -> hardcap.Limiter:
    """Two resources: three requests, ten tokens."""
    return opened(limits={"requests": 3, "tokens": 10})
