"""The command, run on the segments of one test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Every test that says ``mode`` runs in both.
from tests.process.conftest import mode as mode
from tests.support import commands

Hardcap = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(segment_dir: Path) -> Hardcap:
    """``run("status", name)``: done, with what it wrote and its exit status."""

    def call(command: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return commands.run("hardcap.cli", command, "--dir", os.fspath(segment_dir), *arguments, env=env)

    return call
