"""What a signal handler or a finalizer does in the middle of the product's code: at any instruction of it."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import hardcap

_PRODUCT = hardcap.__path__[0]


@contextlib.contextmanager
def before_instruction(number: int, action: Callable[[], object]) -> Iterator[list[bool]]:
    """Do this once, right before the bytecode instruction of that number, from 0, that the product runs in the block.

    Gives a list that is empty until then.
    """
    numbers = itertools.count()
    done: list[bool] = []

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        if done or not frame.f_code.co_filename.startswith(_PRODUCT):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(numbers) == number:
            done.append(True)
            action()
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # on some frame, before tracing starts: else 3.12 begins a run late
    sys.settrace(trace)
    try:
        yield done
    finally:
        sys.settrace(before)
