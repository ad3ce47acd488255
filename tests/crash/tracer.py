"""One child under ptrace(2): stopped, looked at, let go for one instruction or one system call, killed. x86-64."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Final

TRACE_ME: Final = 0
READ_REGISTER: Final = 3
WRITE_REGISTER: Final = 6
CONTINUE: Final = 7
ONE_INSTRUCTION: Final = 9
TO_SYSTEM_CALL: Final = 24
_SET_OPTIONS: Final = 0x4200
_OPTIONS: Final = 0x00000001 | 0x00100000  # system call stops told from traps; who traces dies: the child too

SYSTEM_CALL: Final = signal.SIGTRAP | 0x80
READY: Final = signal.SIGSTOP  # raised by the child itself, right before and right after its operation
ACCESS: Final = signal.SIGUSR1  # raised by the child itself, right before each access to the words
_RIP: Final = 16 * 8  # the instruction pointer's offset in struct user
_CRASHED: Final = 70

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    ctypes.set_errno(0)
    answer: int = _libc.ptrace(request, pid, address, data)
    if answer == -1 and (number := ctypes.get_errno()):
        raise OSError(number, f"ptrace request {request} of process {pid}: {os.strerror(number)}")
    return answer


class Tracee:
    """A forked child that prepares, says so by stopping, and then runs one operation wherever it is let."""

    def __init__(self, prepare: Callable[[], Callable[[], object]]) -> None:
        self.pid = os.fork()
        if not self.pid:
            _play(prepare)
        self._gone = False
        self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        if self._wait() != READY:
            raise AssertionError(f"process {self.pid} did not get ready")
        _ptrace(_SET_OPTIONS, self.pid, 0, _OPTIONS)

    def resume(self, request: int) -> int:
        """Let it run on, and return the signal that it is stopped by next. A signal that stopped it is dropped."""
        _ptrace(request, self.pid)
        return self._wait()

    @property
    def instruction(self) -> int:
        """Address of the next instruction."""
        return _ptrace(READ_REGISTER, self.pid, _RIP)

    @instruction.setter
    def instruction(self, address: int) -> None:
        _ptrace(WRITE_REGISTER, self.pid, _RIP, address)

    def read(self, address: int, length: int) -> bytes:
        return os.pread(self._memory, length, address)

    def write(self, address: int, data: bytes) -> None:
        """Into its private copy, code too."""
        if os.pwrite(self._memory, data, address) != len(data):
            raise AssertionError(f"half a write to {address:#x} of process {self.pid}")

    def mapping(self, file: str) -> range:
        """Addresses at which the code of a library stands."""
        with open(f"/proc/{self.pid}/maps") as lines:
            (found,) = (line.split()[0] for line in lines if line.rstrip().endswith(file) and " r-xp " in line)
        return range(*(int(end, 16) for end in found.split("-")))

    def kill(self) -> None:
        """SIGKILL where it stands, and reap it: it does nothing more. Idempotent."""
        if not self._gone:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._bury()

    def _bury(self) -> None:
        self._gone = True
        os.close(self._memory)

    def _wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        if not os.WIFSTOPPED(status):
            self._bury()
            raise AssertionError(f"process {self.pid} ended by itself, {os.waitstatus_to_exitcode(status)}")
        return os.WSTOPSIG(status)


def _play(prepare: Callable[[], Callable[[], object]]) -> None:
    """In the child; it never returns."""
    try:
        _ptrace(TRACE_ME, 0)
        operation = prepare()
        signal.raise_signal(READY)
        operation()
        signal.raise_signal(READY)
    except BaseException as error:
        os.write(2, f"in the victim: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(_CRASHED)
