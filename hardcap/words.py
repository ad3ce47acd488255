"""64-bit words over shared memory: the seam through which every algorithm gets its memory.

The algorithm's files never import an atomics library. They are given words with ``load``, ``store``, ``fetch_add``,
``compare_exchange`` and ``column``, addressed by word number, so that a checker can replace them. This is the only
module that imports ``atomics`` (GPLv3), and only once a word is really changed atomically.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import platform
import struct
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from hardcap.errors import BackendUnavailable
from hardcap.layout import U64, WORD

if TYPE_CHECKING:
    import mmap

    from hardcap.config import Mode


class Words(Protocol):
    """What an algorithm may do to memory. Values are unsigned, and what is written wraps at 2**64."""

    def load(self, index: int, /) -> int: ...

    def store(self, index: int, value: int, /) -> None: ...

    def fetch_add(self, index: int, delta: int, /) -> int: ...

    def compare_exchange(self, index: int, expected: int, desired: int, /) -> bool: ...

    def column(self, first: int, count: int, step: int, /) -> Iterable[int]:
        """Words ``first``, ``first + step``, ...: loaded afresh, plainly, whenever it is iterated.

        For reads that something else puts in order: a lock, or an acquire before them and a release after them.
        """

    def address(self, index: int, /) -> int:
        """Where the word is in this process's memory, for the kernel: good until the memory is let go."""


class MappedWords(Words, Protocol):
    """Words of a mapped segment."""

    def close(self) -> None:
        """Let go of the memory."""

    def detach(self) -> None:
        """Cut a forked child off: whatever still runs on these words runs on a private copy."""


MapWords = Callable[["Mode", "mmap.mmap"], MappedWords]


def require_atomics(segment: str) -> Any:
    """The ``atomics`` module, or :class:`BackendUnavailable` for ``segment`` where it cannot be used."""
    try:
        import atomics

        with atomics.atomicview(buffer=bytearray(WORD), atype=atomics.UINT) as word:
            word.cmpxchg_strong(0, 1)
    except Exception as error:  # whatever a broken installation raises, the answer is the same
        found = f"the atomics package unusable ({type(error).__name__}: {error})"
        remedy = "install it with: pip install 'atomics>=1.0.3'"
        raise BackendUnavailable(segment, found, "a backend with 64-bit atomic words", remedy) from error
    return atomics


# There a plain load of an aligned word is a sequentially consistent one: stores carry the fence (Intel SDM 3A, 8.2).
_LOADS_ARE_ORDERED = platform.machine() == "x86_64"


class _MappedWords:
    """Words of a mapped segment; read-modify-write by ``atomics``, whose views are opened when first needed.

    A subscript of ``cells`` is one plain access of an aligned word, which never tears: ``memoryview`` moves an item of
    format ``Q`` by one 8-byte copy, which every 64-bit platform does in one instruction.
    """

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._views: dict[int, Any] = {}
        self._contexts: list[Any] = []
        self._use(memory)
        _alive.add(self)

    def _use(self, memory: mmap.mmap | bytearray) -> None:
        self._bytes = memoryview(memory)
        self.cells = self._bytes.cast("Q")

    def fetch_add(self, index: int, delta: int) -> int:
        return self._view(index).fetch_add(delta & U64)  # type: ignore[no-any-return]

    def compare_exchange(self, index: int, expected: int, desired: int) -> bool:
        return bool(self._view(index).cmpxchg_strong(expected, desired & U64))

    def column(self, first: int, count: int, step: int) -> Iterable[int]:
        return self.cells[first : first + count * step : step]

    def address(self, index: int) -> int:
        return ctypes.addressof(ctypes.c_uint64.from_buffer(self._bytes, index * WORD))

    def _view(self, index: int) -> Any:
        view = self._views.get(index)
        return self._open_view(index) if view is None else view

    def _open_view(self, index: int) -> Any:
        atomics = sys.modules.get("atomics") or require_atomics("(memory)")
        word = self._bytes[index * WORD : (index + 1) * WORD]
        context = atomics.atomicview(buffer=word, atype=atomics.UINT)
        view = context.__enter__()
        kept = self._views.setdefault(index, view)
        if kept is view:
            self._contexts.append(context)
        else:  # another thread was first
            context.__exit__(None, None, None)
        return kept

    def close(self) -> None:
        """Let go of the memory. A thread that is still reading keeps it mapped until it is done."""
        _alive.discard(self)
        while self._contexts:
            self._contexts.pop().__exit__(None, None, None)
        self._views.clear()
        with contextlib.suppress(BufferError):
            self.cells.release()
            self._bytes.release()

    def detach(self) -> None:
        """Cut a forked child off: whatever still runs on these words runs on a private copy."""
        copy = bytearray(self._bytes)
        self.close()
        self._use(copy)


class AtomicWords(_MappedWords):
    """Every access by itself is atomic and sequentially consistent. For strict mode."""

    def load(self, index: int) -> int:
        return self.cells[index] if _LOADS_ARE_ORDERED else self._view(index).load()

    def store(self, index: int, value: int) -> None:
        self._view(index).store(value & U64)


class PlainWords(_MappedWords):
    """``load`` and ``store`` order nothing by themselves: the process-local lock around them does. For approximate."""

    def load(self, index: int) -> int:
        return self.cells[index]

    def store(self, index: int, value: int) -> None:
        self.cells[index] = value & U64


def words_of(image: bytes, first: int, count: int) -> tuple[int, ...]:
    """``count`` words of ``image``, beginning with word number ``first``."""
    return struct.unpack_from(f"<{count}Q", image, first * WORD)


def never_collect(thing: object) -> None:
    """Keep an object to the end of the process and beyond: its finalizer would do harm."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_alive: weakref.WeakSet[_MappedWords] = weakref.WeakSet()


@atexit.register
def _pin_open_views() -> None:
    """Keep open views from being collected at exit, where ``atomics`` would complain of each on stderr.

    They are not closed: a daemon thread may be using them until the very end, and the kernel unmaps them anyway.
    """
    for words in list(_alive):
        never_collect(words._contexts)
