"""The same calls on two limiters, one a backend: answers, errors and every word of the memory must be the same."""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import hardcap
from hardcap import layout

BACKENDS = ("native", "atomics")
_OWN_NAMES = re.compile(r"\b(NativeConnection|PortableLimiter)\b")


class Outcome(NamedTuple):
    """What came of a call: a value, or an error by type and text; warnings on the way, and what no one could catch."""

    value: object
    error: str
    warned: list[str]
    uncaught: list[str]


class Side:
    """All there is of one backend: limiters, permits, and the segment's file."""

    def __init__(self, directory: Path, backend: str, name: str, settings: dict[str, Any]) -> None:
        self.directory = directory / backend
        self.directory.mkdir(mode=0o700)
        self._name = name
        self._settings = {**settings, "directory": self.directory, "backend": backend}
        self.limiters: list[hardcap.Limiter] = []
        self.permits: list[hardcap.Permit] = []

    def open(self, **changes: Any) -> None:
        self.limiters.append(hardcap.open(self._name, **self._settings | changes))

    def outcome(self, call: Callable[[Side], object]) -> Outcome:
        value, error = None, ""
        with warnings.catch_warnings(record=True) as warned, _uncaught() as uncaught:
            warnings.simplefilter("always")
            try:
                value = call(self)
            except Exception as raised:
                error = self._plain(_text(raised))
        return Outcome(value, error, [self._plain(str(one.message)) for one in warned], [*map(self._plain, uncaught)])

    def _plain(self, text: str) -> str:
        return _OWN_NAMES.sub("Limiter", text.replace(str(self.directory), "directory"))

    def words(self) -> list[int]:
        """Every word of the file; times and process ids as whether there is any."""
        image = (self.directory / self._name).read_bytes()
        words = list(struct.unpack(f"<{len(image) // layout.WORD}Q", image))
        words[layout.H_SWEPT_AT] = 0  # whether 10 ms are over is chance
        slots = range((len(words) - layout.SLOTS_OFFSET // layout.WORD) // (layout.SLOT_BYTES // layout.WORD))
        of_slots = [layout.S_PID, layout.S_STARTED_AT, layout.S_OLDEST_PERMIT]
        for number in [layout.H_CREATED_AT, *(layout.slot(slot) + field for slot in slots for field in of_slots)]:
            words[number] = bool(words[number])
        return words

    def damage(self, number: int, value: int) -> None:
        """Write a word of the file."""
        with (self.directory / self._name).open("r+b") as file:
            file.seek(number * layout.WORD)
            file.write(value.to_bytes(layout.WORD, "little"))

    def close(self) -> None:
        for limiter in self.limiters:
            limiter.close()


def _text(error: BaseException) -> str:
    return f"{type(error).__name__} {error} {sorted(vars(error).items())}"


@contextlib.contextmanager
def _uncaught() -> Iterator[list[str]]:
    """Errors that finalizers raise in the block."""
    found: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda what: found.append(_text(what.exc_value or Exception()))
    try:
        yield found
    finally:
        sys.unraisablehook = before


class Twins:
    """Two sides that are asked the same."""

    def __init__(self, directory: Path, name: str, **settings: Any) -> None:
        self._sides = [Side(directory, backend, name, settings) for backend in BACKENDS]
        self.agree("open", Side.open)

    @property
    def limiters(self) -> int:
        return len(self._sides[0].limiters)

    @property
    def permits(self) -> int:
        return len(self._sides[0].permits)

    def agree(self, what: str, call: Callable[[Side], object]) -> Outcome:
        """The outcome on both sides; an ``AssertionError`` that shows the difference, if there is one."""
        native, portable = (side.outcome(call) for side in self._sides)
        assert native == portable, f"{what}: native {native}, atomics {portable}"
        after = [side.words() for side in self._sides]
        differing = [(number, *pair) for number, pair in enumerate(zip(*after, strict=True)) if pair[0] != pair[1]]
        assert not differing, f"{what}: words differ (number, native, atomics): {differing}"
        return native

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for side in self._sides:
            with contextlib.suppress(hardcap.HardcapError):
                side.close()
            shutil.rmtree(side.directory)
