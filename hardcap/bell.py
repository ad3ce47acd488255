"""The bell: one word of each segment, by which whoever makes room wakes those who sleep until there is some.

    about to sleep                      release, a sweep that brought something back, a new limit
      bell = 1                            change the words
      ask once more                       bell is 1: bell = 0, wake all
      sleep while bell is 1

So nobody sleeps through room that was made after he asked. Nor does anybody depend on it: every sleep is bounded, a
bell that was missed or a ringer that died costs one such sleep, and a sleeper that died costs one vain ring.

Sleeping on a word is futex(2). Where that is not to be had, each sleep takes its full, shorter time.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import sys
import time
from typing import Final

from hardcap import layout
from hardcap.words import Words

SLEEP: Final = 0.1  # seconds, at most
POLL: Final = 0.008  # seconds, where there is no futex

_NUMBERS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}  # of the system call
_WAIT: Final = 0
_WAKE: Final = 1
_EVERYBODY: Final = 2**31 - 1
_RUNG: Final = errno.EAGAIN  # before the kernel had put us to sleep

_libc = ctypes.CDLL(None, use_errno=True)
_futex = _NUMBERS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_BOUND: Final = _Timespec(0, round(SLEEP * 1e9))


def ring(words: Words) -> None:
    """Wake all who sleep, after room was made."""
    if words.load(layout.BELL):
        words.store(layout.BELL, 0)
        if _futex is not None:
            _call(words.address(layout.BELL), _WAKE, _EVERYBODY, None)


def arm(words: Words) -> int:
    """Set the bell, before asking once more; where it is, for ``sleep``."""
    words.store(layout.BELL, 1)
    return words.address(layout.BELL)


def sleep(address: int) -> bool:
    """Sleep until the bell rings, or as long as a sleep may take: whether it rang.

    It only ever names the address to the kernel, which notices when no memory is there any more.
    """
    if _futex is None:
        time.sleep(POLL)
        return False
    error = _call(address, _WAIT, 1, ctypes.byref(_BOUND))
    if error not in (0, _RUNG, errno.ETIMEDOUT, errno.EINTR):
        time.sleep(POLL)
    return error in (0, _RUNG)


def _call(address: int, operation: int, value: int, bound: object) -> int:
    """The system call, for memory that is shared between processes: 0, or what went wrong."""
    answer = _libc.syscall(ctypes.c_long(_futex or 0), ctypes.c_void_p(address), operation, value, bound, None, 0)
    return 0 if answer >= 0 else ctypes.get_errno()
