"""Short words for tests of settings: what refuses, an environment, a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardcap.errors import ConfigError


def refusal(make: Callable[..., object], *args: Any, **kwargs: Any) -> ConfigError:
    """The ConfigError that this call raises; its text shows its value and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        make(*args, **kwargs)
    error = caught.value
    assert str(error) == f"{error.key} is {error.value!r}, allowed: {error.allowed}"
    assert error.allowed
    return error


def env(**variables: str) -> dict[str, str]:
    """An environment of ours, beside variables of others."""
    return {"PATH": "/bin", "HARD": "1"} | {f"HARDCAP_{name}": text for name, text in variables.items()}


def toml(folder: Path, text: str, name: str = "hardcap.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
