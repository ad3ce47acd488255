"""How long the units of the dead are away: from the SIGKILL until the slot that owed them is clean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hardcap import layout, slots
from hardcap.segment import Segment
from tests.torture.ledger import now


@dataclass
class Times:
    """Milliseconds. ``held_up`` are of operations cut in half while another process was stopped inside one."""

    whole: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    held_up: list[float] = field(default_factory=list)

    def __iadd__(self, other: Times) -> Times:
        self.whole += other.whole
        self.cut += other.cut
        self.held_up += other.held_up
        return self


@dataclass
class _Owed:
    """A dead owner's slot, while it is not clean."""

    slot: int
    incarnation: int
    killed_at: int
    cut: bool
    held_up: bool = False


class Deaths:
    """Reads the words of the slots, and nothing else of the segment."""

    def __init__(self, segment: Segment) -> None:
        self._words = segment.words
        self._segment = segment
        self._resources = range(len(segment.shape.resources))
        self._owed: list[_Owed] = []
        self.times = Times()

    @property
    def awaited(self) -> int:
        """Of how many dead the units are not back."""
        return len(self._owed)

    def owners(self) -> dict[int, int]:
        """The slot of each process that has one."""
        owners = {}
        for slot in range(self._segment.high_water()):
            block = layout.slot(slot)
            if layout.low(self._words.load(block + layout.S_STATE)) == layout.STATE_LIVE:
                owners[self._words.load(block + layout.S_PID)] = slot
        return owners

    def incarnation(self, slot: int) -> int:
        return layout.high(self._words.load(layout.slot(slot) + layout.S_STATE))

    def died(self, slot: int, incarnation: int, killed_at: int) -> None:
        """Wait for its units, if it owes any. To be told at once after the death."""
        owed = _Owed(slot, incarnation, killed_at, self.is_inside(slot))
        if not self._is_back(owed):
            self._owed.append(owed)

    def is_inside(self, slot: int) -> bool:
        """Whether its owner is, or was when it died, inside an operation."""
        return any(layout.high(self._words.load(layout.slot_word(slot, index))) for index in self._resources)

    def look(self, stopped: Iterable[int]) -> None:
        """See whose units are back. ``stopped`` are the slots of processes that are stopped now."""
        blocked = any(self.is_inside(slot) for slot in stopped)
        for owed in list(self._owed):
            owed.held_up |= owed.cut and blocked
            if self._is_back(owed):
                self._owed.remove(owed)
                self._list(owed).append((now() - owed.killed_at) / 1e6)

    def _list(self, owed: _Owed) -> list[float]:
        return self.times.held_up if owed.held_up else self.times.cut if owed.cut else self.times.whole

    def _is_back(self, owed: _Owed) -> bool:
        """The words first: they are another owner's if the incarnation is another after them."""
        return slots.is_clean(self._segment, owed.slot) or self.incarnation(owed.slot) != owed.incarnation
