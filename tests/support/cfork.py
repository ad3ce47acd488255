"""Children that answer: of forks that Python does not know of, as a library in C makes them, and of its own."""

from __future__ import annotations

import ctypes
import json
import os
import select
import traceback
from collections.abc import Callable
from typing import Any

from tests.support.processes import DEADLINE


class Forked:
    """A child made by fork(2) in C. It runs ``main``, sends what that returns, and lives on until ``end`` or a signal.

    ``holding_gil``: fork while this thread has the interpreter; else it is let go and taken again, as for any C call.
    """

    def __init__(self, main: Callable[[], Any], *, holding_gil: bool = False, by_python: bool = False) -> None:
        self._answers, answers = os.pipe()
        order, self._order = os.pipe()
        library: Any = ctypes.PyDLL(None) if holding_gil else ctypes.CDLL(None)
        self.pid: int = os.fork() if by_python else library.fork()
        if self.pid == 0:
            os.close(self._order)
            _live(main, answers, order)
        os.close(answers)
        os.close(order)

    def answer(self) -> Any:
        """What ``main`` returned."""
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([self._answers], [], [], DEADLINE)[0]:
                raise TimeoutError(f"child {self.pid} does not answer")
            chunk = os.read(self._answers, 65536)
            if not chunk:
                raise EOFError(f"child {self.pid} ended")
            text += chunk
        return json.loads(text)

    def end(self) -> int:
        """Its exit status, once it has been told to end."""
        os.close(self._order)
        os.close(self._answers)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def in_child(main: Callable[[], Any]) -> Any:
    """What ``main`` returns in a child that Python forks."""
    child = Forked(main, by_python=True)
    try:
        return child.answer()
    finally:
        child.end()


def _live(main: Callable[[], Any], answers: int, order: int) -> None:
    """Never returns: the code around the fork is the parent's."""
    status = 1
    try:
        os.write(answers, json.dumps(main()).encode() + b"\n")
        os.read(order, 1)  # nothing comes but the end: the parent says so, or dies
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
