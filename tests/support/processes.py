"""Children under test: bare processes driven over pipes, with deadlines, always killed and reaped."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "support" / "worker.py"
DEADLINE = 60.0  # seconds: not a speed that is asserted, only when to give up on a hang


def python_path(*before: Path) -> str:
    """``PYTHONPATH`` for a child: directories of the test's own, the sources under test, what was there."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([*map(os.fspath, before), os.fspath(ROOT), *filter(None, inherited)])


class RemoteError(Exception):
    """The code sent to a child raised. ``kind`` is the name of the exception's type there."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Child:
    """One child in a process group of its own. ``run`` sends it code and waits for the value.

    ``flags`` go to its interpreter, ``prefix`` is a command that starts it (``unshare``, ``taskset``).
    """

    def __init__(
        self, *, flags: Sequence[str] = (), prefix: Sequence[str] = (), env: dict[str, str] | None = None
    ) -> None:
        self._errors = os.memfd_create("stderr")
        self._unread = b""
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-W", "error", *flags, os.fspath(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": python_path(), "PYTHONSAFEPATH": "1"} | (env or {}),
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def post(self, code: str, **variables: Any) -> None:
        """Send code without waiting for its value: ``answer`` does. ``variables`` are set there first."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"code": code, "variables": variables}).encode() + b"\n")

    def answer(self, deadline: float = DEADLINE) -> Any:
        """The value of what was posted first and not answered yet. ``RemoteError`` if it raised."""
        reply = json.loads(self._line(time.monotonic() + deadline))
        if "error" in reply:
            raise RemoteError(*reply["error"])
        return reply["value"]

    def run(self, code: str, **variables: Any) -> Any:
        self.post(code, **variables)
        return self.answer()

    def _line(self, until: float) -> bytes:
        assert self.process.stdout
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._unread:
            if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"child {self.pid} does not answer; its stderr: {self.stderr!r}")
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise EOFError(f"child {self.pid} ended; its stderr: {self.stderr!r}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    @property
    def stderr(self) -> str:
        """All it, and its own children, wrote to stderr so far."""
        return os.pread(self._errors, 1 << 20, 0).decode(errors="replace")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """SIGSTOP, and wait until it is stopped."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self, *, reap: bool = True) -> None:
        """SIGKILL, and wait until it is dead: reaped, or left a zombie."""
        self.signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if reap:
            self.process.wait()

    def finish(self, deadline: float = DEADLINE) -> int:
        """Let it end by itself, as an interpreter does. Its exit status; negative: a signal ended it."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(deadline)

    def close(self) -> None:
        """Kill and reap it and all it has started."""
        kill_group(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()
        os.close(self._errors)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill and reap a process that leads a group, and all that it has started there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ChildProcessError):
        while True:  # orphans of its group: they are ours, see ``adopt_orphans``
            os.waitpid(-process.pid, 0)


def eventually(condition: Callable[[], bool], what: str, deadline: float = DEADLINE) -> None:
    """Wait until ``condition`` holds."""
    until = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < until, f"not within {deadline} s: {what}"
        time.sleep(0.002)
