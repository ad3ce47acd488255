"""One segment, and who stands around the victim: a process that holds, one that does not, and a look at the words."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import hardcap
from hardcap import layout
from hardcap.config import Mode
from hardcap.layout import high, low
from hardcap.words import words_of
from tests.crash.actors import Actor, Units

PORTION: Final = {"requests": 1, "tokens": 2}  # what is reserved or released at once
PORTIONS: Final = 4  # the limit
SLOTS: Final = 8
BYSTANDERS: Final = 2  # the first slots are theirs

State = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Settings:
    """How the segment is opened: by the victims with this backend, by everybody else with the native core."""

    directory: str
    name: str
    mode: str
    resources: int
    backend: str

    @property
    def portion(self) -> Units:
        return dict(list(PORTION.items())[: self.resources])

    def portions(self, count: int) -> Units:
        return {name: count * n for name, n in self.portion.items()}

    def open(self, backend: str = "native") -> hardcap.Limiter:
        return hardcap.open(
            self.name,
            limits=self.portions(PORTIONS),
            mode=self.mode,
            max_processes=SLOTS,
            directory=self.directory,
            backend=backend,
        )


def warm_up(settings: Settings) -> None:
    """Load what opening loads once, before the forks."""
    for backend in ("native", settings.backend):
        replace(settings, name="warm-up").open(backend).close()
    hardcap.unlink("warm-up", settings.directory)


class Stage:
    """The bystanders live on from one death to the next, on one segment."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        warm_up(settings)
        self.holder = Actor(settings.open)
        self.held = settings.portion
        assert self.holder.ask("hold", self.held)
        self.idle = Actor(settings.open)
        assert self.idle.ask("slots") == [BYSTANDERS - 1]
        with open(os.path.join(settings.directory, settings.name), "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._seen: tuple[bytes, State] = b"", ()

    def state(self) -> State:
        """By resource: the global count, then held and pending of each slot that is not a bystander's."""
        image = self._memory[layout.HEADER_BYTES :]
        if image != self._seen[0]:
            self._seen = image, self._state()
        return self._seen[1]

    def _state(self) -> State:
        return tuple(
            (
                low(self._word(layout.global_word(index))),
                *(half for slot in range(BYSTANDERS, SLOTS) for half in self._slot(slot, index)),
            )
            for index in range(self.settings.resources)
        )

    def pending(self) -> bool:
        """Whether a change has been announced, and not been confirmed."""
        return any(any(resource[2::2]) for resource in self.state())

    def left(self) -> bool:
        """Whether anything is held or pending, by other than bystanders."""
        return any(any(resource[1:]) for resource in self.state())

    def limits(self) -> Units:
        """The limits in force."""
        return {name: self._word(layout.limit_word(i)) for i, name in enumerate(self.settings.portion)}

    def counted(self) -> Units:
        """Units in flight: the global count, or in approximate mode the sum of the slots."""
        if self.settings.mode == Mode.strict:
            return {name: row[0] for name, row in zip(self.settings.portion, self.state(), strict=True)}
        every = range(SLOTS)
        return {n: sum(self._slot(slot, i)[0] for slot in every) for i, n in enumerate(self.settings.portion)}

    def hold_sweeps_off(self) -> None:
        """As if somebody had just swept: for 10 ms no refusal starts a sweep."""
        self._put(layout.H_SWEPT_AT, time.monotonic_ns())

    def let_sweeps_in(self) -> None:
        """As if those 10 ms were over."""
        self._put(layout.H_SWEPT_AT, 0)

    def close(self) -> None:
        self.holder.end()
        self.idle.end()
        self._memory.close()

    def _slot(self, slot: int, index: int) -> tuple[int, int]:
        word = self._word(layout.slot_word(slot, index))
        return low(word), high(word)

    def _word(self, number: int) -> int:
        return words_of(self._memory, number, 1)[0]  # type: ignore[arg-type]

    def _put(self, number: int, value: int) -> None:
        self._memory[number * layout.WORD : (number + 1) * layout.WORD] = value.to_bytes(layout.WORD, "little")


@contextmanager
def staged(settings: Settings) -> Iterator[Stage]:
    """A stage, taken down at the end."""
    stage = Stage(settings)
    try:
        yield stage
    finally:
        stage.close()
