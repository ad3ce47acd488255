"""A module run as a command, in a process of its own, strictly and with a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.support.processes import DEADLINE, ROOT


@contextlib.contextmanager
def started(*command: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A module, run in a process group of its own; killed in the end, and all that it orphaned reaped."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-X", "dev", "-m", *command],
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
            reap(process)


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """End it by a signal, as a person would: once more if the interpreter dropped the first one in some callback.

    Returns its exit status and what it said of it on stderr, last of all; processes that it started may have said more.
    """
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, err = process.communicate(timeout=10)
            told = [line for line in err.splitlines() if line.startswith("bench ")]
            return process.returncode, "".join(told[-1:])
    raise TimeoutError(f"process {process.pid} does not end")


def reap(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-process.pid, 0)


def run(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    with started(*command, env=env) as process:
        out, err = process.communicate(timeout=DEADLINE)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
