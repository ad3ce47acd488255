"""The command, run on the segments of one test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import hardcap
from hardcap.cli.main import main

Hardcap = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=hardcap.Mode)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(segment_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hardcap:
    """``run("status", name)``: done, in this process, with what it wrote and its exit status.

    In a process of its own each command runs in ``test_terminal.py``.
    """
    monkeypatch.setenv("COLUMNS", "80")

    def call(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [command, "--dir", os.fspath(segment_dir), *arguments]
        try:
            status = main(argv)
        except SystemExit as usage:
            status = int(usage.code or 0)
        return subprocess.CompletedProcess(argv, status, *capsys.readouterr())

    return call
