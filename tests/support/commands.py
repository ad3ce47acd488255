"""A module run as a command, in a process of its own, strictly and with a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
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
