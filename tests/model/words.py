"""Shared words and the kernel's locks as the product sees them, and what becomes of them at each request."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from types import SimpleNamespace
from typing import Any, NamedTuple

from hardcap import layout
from hardcap.layout import U64
from tests.model.actors import Again, Answer, Failed, Request, Run
from tests.support.columns import Column

WAIT = "wait"  # a request that has no answer until a lock is free
DIRECTORY = "directory"  # the lock of the directory, in the place of a byte


class State(NamedTuple):
    """What all actors share. ``locks``: by lock, 0 or 1 + the description that holds it; ``ghost``: see memory."""

    words: tuple[int, ...]
    locks: tuple[int, ...]
    ghost: tuple[Any, ...]


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


class ScheduledWords:
    """`Words`, each access a request. Words that are ``fixed`` or ``unseen`` are no matter for others.

    A fixed word is never written; what is written to an unseen one nobody acts on: both are accessed at once.
    """

    def __init__(self, run: Run, shared: dict[int, int], fixed: dict[int, int]) -> None:
        self._run = run
        self._shared = shared
        self._fixed = fixed
        self.cells = self

    def load(self, index: int, /) -> int:
        if index in self._shared:
            return self._run.ask("load", index)  # type: ignore[no-any-return]
        return self._fixed.get(index, 0)

    def store(self, index: int, value: int, /) -> None:
        if self._is_shared(index):
            self._run.ask("store", index, value)

    def fetch_add(self, index: int, delta: int, /) -> int:
        return self._run.ask("add", index, delta) if self._is_shared(index) else 0

    def compare_exchange(self, index: int, expected: int, desired: int, /) -> bool:
        return self._run.ask("swap", index, expected, desired) if self._is_shared(index) else True

    def column(self, first: int, count: int, step: int, /) -> Column:
        return Column(self.load, first, count, step)

    __getitem__ = load
    __setitem__ = store

    def _is_shared(self, index: int) -> bool:
        assert index not in self._fixed, f"word {index} is written, expected: never"
        return index in self._shared


def change_word(state: State, position: int, request: Request) -> tuple[Answer, State]:
    """The answer to an access of a word, and the state after it."""
    kind, value = request[0], state.words[position]
    if kind == "load":
        return value, state
    if kind == "store":
        answer, after = None, request[2]
    elif kind == "add":
        answer, after = value, (value + request[2]) & U64
    else:
        answer = value == request[2]
        after = request[3] if answer else value
    return answer, state._replace(words=put(state.words, position, after))


def change_lock(state: State, position: int, request: Request) -> tuple[Answer, State] | None:
    """The same for a lock; None while it has to be waited for."""
    kind, descriptor = request[:2]
    holder, me = state.locks[position], 1 + descriptor
    if kind == "unlock":
        return None, state._replace(locks=put(state.locks, position, 0)) if holder == me else state
    taken = holder not in (0, me)
    if kind == "is locked":
        return taken, state
    if taken:
        return None if kind == WAIT else (Failed(errno.EAGAIN), state)
    return None, state._replace(locks=put(state.locks, position, me))


def drop_all(state: State, holders: set[int]) -> State:
    """Whatever those descriptions hold is free."""
    gone = {1 + descriptor for descriptor in holders}
    return state._replace(locks=tuple(0 if holder in gone else holder for holder in state.locks))


# --- the system, as far as the shared memory needs it -----------------------------------------------------------------


class Locks:
    """In the place of ``fcntl``: locks of open file descriptions. ``run`` is the one under way."""

    F_RDLCK, F_WRLCK, F_UNLCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
    F_OFD_SETLK, F_OFD_GETLK = fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK
    run: Run

    def fcntl(self, descriptor: int, command: int, record: bytes) -> bytes:
        kind, whence, byte, length, pid = struct.unpack("hhqqi4x", record)
        if command == self.F_OFD_GETLK:
            taken = self.run.ask("is locked", descriptor, byte)
            return struct.pack("hhqqi4x", kind if taken else self.F_UNLCK, whence, byte, length, pid)
        if kind != self.F_UNLCK:
            self.run.ask("lock", descriptor, byte)
        elif length:
            self.run.ask("unlock", descriptor, byte)
        else:
            self.run.ask("unlock all", descriptor)
        return record


def _sleep(_seconds: float) -> None:
    raise Again


CLOCK = SimpleNamespace(monotonic=lambda: 0.0, monotonic_ns=lambda: 0, time_ns=lambda: 1, sleep=_sleep)


def system(locks: Locks) -> dict[str, Any]:
    """What the product imports of the system."""
    quiet = SimpleNamespace(**{**vars(os), "register_at_fork": lambda **_hooks: None, "getpid": lambda: 1})
    return {"os": quiet, "time": CLOCK, "fcntl": locks}


def word_names(resources: int, slots: int) -> dict[int, str]:
    """What the words are called in a schedule."""
    names = {layout.H_HIGH_WATER: "high water", layout.H_RECOVERED: "recovered owners"}
    for index in range(resources):
        names[layout.global_word(index)] = f"global {index}"
        names[layout.limit_word(index)] = f"limit {index}"
        for slot in range(slots):
            names[layout.slot_word(slot, index)] = f"slot {slot} resource {index}"
    for slot in range(slots):
        names[layout.slot(slot) + layout.S_STATE] = f"slot {slot} state"
        names[layout.slot(slot) + layout.S_ADMITTED] = f"slot {slot} admitted"
        names[layout.slot(slot) + layout.S_RELEASED] = f"slot {slot} released"
    return names
