"""What the tests of both middlewares and of servers ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hardcap
from hardcap.opening import open_limiter

Env = Callable[..., dict[str, str]]


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    limits = {"requests": 2, "tokens": 100}
    with hardcap.open(name, limits=limits, directory=segment_dir) as limiter:
        yield limiter


@pytest.fixture
def env(name: str, segment_dir: Path) -> Env:
    """The environment that configures a server's workers: ``env(limit)``."""

    def environment(limit: object) -> dict[str, str]:
        return {"HARDCAP_NAME": name, "HARDCAP_DIR": os.fspath(segment_dir), "HARDCAP_LIMIT": str(limit)}

    return environment


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch, env: Env) -> Callable[[object], None]:
    """Have the environment of this process, and of its children, configure the middleware: ``configured(limit)``."""

    def by_environment(limit: object) -> None:
        for key, value in env(limit).items():
            monkeypatch.setenv(key, value)

    return by_environment


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all limiters that middlewares open in this test, attached or failed."""
    names: list[str] = []

    def counted(config: hardcap.Config) -> hardcap.Limiter:
        names.append(config.name)
        return open_limiter(config)

    monkeypatch.setattr("hardcap.source.open_limiter", counted)
    return names


@pytest.fixture
def in_flight(name: str, segment_dir: Path) -> Callable[[], int]:
    """Units of the first resource, as anybody sees them."""
    return lambda: hardcap.inspect(name, segment_dir).resources[0].in_flight
