"""A module run as a command: in a process of its own, strictly and with a deadline; in this one, if it only refuses."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from bench.__main__ import main
from tests.support.processes import DEADLINE, ROOT, kill_group

_SLOW_CALLBACK = re.compile(r"Executing <.* took [\d.]+ seconds")  # of asyncio's debug mode, on a busy machine


@contextlib.contextmanager
def started(
    *command: str, env: dict[str, str] | None = None, flags: Sequence[str] = ("-X", "dev")
) -> Iterator[subprocess.Popen[str]]:
    """A module, run in a process group of its own; killed in the end, and all that it orphaned reaped."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", *flags, "-m", *command],
        cwd=ROOT,
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            kill_group(process)


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """End it by a signal, as a person would: once more if the interpreter dropped the first one in some callback.

    Returns its exit status and what it said of it on stderr, last of all; processes that it started may have said more.
    """
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=DEADLINE / 4)  # an end that is slow is no dropped one
            told = [line for line in err.splitlines() if line.startswith("bench ")]
            return process.returncode, "".join(told[-1:])
    raise TimeoutError(f"process {process.pid} does not end")


def run(*command: str, deadline: float = DEADLINE, **options: Any) -> subprocess.CompletedProcess[str]:
    with started(*command, **options) as process:
        out, err = process.communicate(timeout=deadline)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def called(capsys: pytest.CaptureFixture[str], command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``python -m bench`` in this process: for what ends before it has started anything."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        status: object = main([command, *options])
    except SystemExit as usage:
        status = usage.code
    finally:
        signal.signal(signal.SIGTERM, before)
    assert isinstance(status, int)
    return subprocess.CompletedProcess(options, status, *capsys.readouterr())


def complaints(stderr: str) -> str:
    """What was written there, but for what is no fault."""
    return "\n".join(line for line in stderr.splitlines() if not _SLOW_CALLBACK.match(line))
