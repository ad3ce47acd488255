"""What dead owners left, in memory, and what is wrong once it has been recovered from: [] if all is well.

Slot 0 belongs to a survivor, which holds ``LIVE``; the others' owners died. Invariants as numbered in hardcap.recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardcap import layout
from hardcap.layout import pack
from hardcap.ownership import claim
from hardcap.segment import Segment
from hardcap.strict import Strict
from tests.support.memory import WRITES, Memory, Process, Stopped

LIMITS = {"requests": 100, "tokens": 100}
LIVE = (2, 3)


@dataclass(frozen=True)
class Left:
    """What dead owners left in slots 1, 2 and so on: (held, pending) by resource; how much of the pending counts."""

    owners: tuple[tuple[tuple[int, int], ...], ...]
    counted: tuple[int, int] = (0, 0)

    def put(self, made: Memory | Segment) -> None:
        for slot, words in enumerate(self.owners, 1):
            made.words.store(layout.slot(slot), pack(layout.STATE_LIVE, 1))
            for index, (held, pending) in enumerate(words):
                made.words.store(layout.slot_word(slot, index), pack(held, pending))
                made.words.fetch_add(layout.global_word(index), held)
        for index, units in enumerate(self.counted):
            made.words.fetch_add(layout.global_word(index), units)
        made.words.store(layout.H_HIGH_WATER, 1 + len(self.owners))


LEFT = {
    "nothing": Left((((0, 0), (0, 0)),)),
    "held": Left((((2, 0),),)),
    "held of both": Left((((1, 0), (4, 0)),)),
    "pending, not counted": Left((((0, 2),),)),
    "pending, counted": Left((((0, 2),),), (2, 0)),
    "pending of both, one counted": Left((((0, 1), (0, 4)),), (1, 0)),
    "held and pending, not counted": Left((((1, 2), (0, 3)),)),
    "held and pending, counted": Left((((1, 2), (2, 3)),), (2, 3)),
    "two owners": Left((((1, 1), (2, 0)), ((0, 1), (1, 1))), (2, 1)),
    "three owners, one of them clean": Left((((1, 0),), (), ((1, 1),)), (1, 0)),
}


def survivor(made: Memory) -> Process:
    """The live owner in slot 0."""
    process = made.process()
    assert claim(process) == 0
    Strict(process, 0).reserve(tuple(enumerate(LIVE)), 0)
    return process


def faults_at_the_end(made: Memory, live: int = 1) -> list[str]:
    """What is wrong when nothing is left to do."""
    found = [(index, held(made, index, live), made.count(index)) for index in range(2)]
    faults = [f"I4: {count} of resource {index} counted, {n} held" for index, n, count in found if count != n]
    for slot in range(made.shape.slots):
        words = [made.words.load(layout.slot_word(slot, index)) for index in range(2)]
        if any(word >= layout.HIGH_ONE or (word and slot >= live) for word in words):
            faults.append(f"I5: slot {slot} is not clean: {words}")
        if slot >= live and made.words.load(layout.slot(slot)) & layout.STATE_LIVE:
            faults.append(f"I5: slot {slot} is not free")
    return faults


def held(made: Memory, index: int, live: int) -> int:
    return sum(made.held(slot, index) for slot in range(live))


def stops(made: Memory, action: Callable[[], object], number: int) -> bool:
    """Whether ``action`` came as far as its write of that number, before which it stopped."""

    def stop() -> None:
        raise Stopped

    made.words.before_access(number, stop, WRITES)
    try:
        action()
    except Stopped:
        return True
    made.words.undisturbed()
    return False
