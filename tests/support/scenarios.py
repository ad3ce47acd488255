"""Deaths, recoveries and rivals in memory, played to their end: what is wrong then, [] if all is well.

Slot 0 belongs to a survivor, which holds ``LIVE``; the others' owners die. Invariants as numbered in hardcap.recovery.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hardcap import layout
from hardcap.layout import pack
from hardcap.ownership import claim
from hardcap.recovery import sweep
from hardcap.segment import Segment
from hardcap.slots import mark_free
from hardcap.strict import Strict
from tests.support.memory import WRITES, Memory, Process, Stopped, memory

LIMITS = {"requests": 100, "tokens": 100}
LIVE = (2, 3)
BOTH = ((0, 1), (1, 4))

Faults = list[str]
Operation = Callable[[Strict], object]


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

OPERATIONS: dict[str, Operation] = {
    "reserve one": lambda admission: admission.reserve(((0, 1),), 0),
    "reserve both": lambda admission: admission.reserve(((0, 1), (1, 2)), 0),
    "reserve, refused by the second": lambda admission: admission.reserve(((0, 1), (1, 101)), 0),
    "release one": lambda admission: admission.release(((0, 1),)),
    "release both": lambda admission: admission.release(((0, 1), (1, 2))),
    "release a part": lambda admission: admission.release(((1, 1),)),
    "give back all": lambda admission: admission.give_back_all(),
}


def survivor(made: Memory) -> Process:
    """The live owner in slot 0."""
    process = made.process()
    assert claim(process) == 0
    Strict(process, 0).reserve(tuple(enumerate(LIVE)), 0)
    return process


def faults_now(made: Memory, live: int = 1) -> Faults:
    """What is wrong at any moment; the first ``live`` slots have live owners, in the middle of nothing."""
    found = [(index, held(made, index, live), made.count(index)) for index in range(2)]
    return [
        f"I1, I3: {count} of resource {index} counted, {n} held" for index, n, count in found if not n <= count < 2**31
    ]


def faults_at_the_end(made: Memory, live: int = 1) -> Faults:
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


# --- deaths -----------------------------------------------------------------------------------------------------------


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


def explore(play: Callable[[tuple[int, ...]], bool], deaths: int, before: tuple[int, ...] = ()) -> None:
    """Play every sequence of stops. ``play`` tells whether the last one who was to stop was stopped."""
    for number in itertools.count():
        if not play((*before, number)):
            return
        if deaths > 1:
            explore(play, deaths - 1, (*before, number))


def recover(made: Memory, process: Process, numbers: tuple[int, ...], found: Faults) -> bool:
    """Reapers that stop before their writes of these numbers, then one that does not. Was the last one stopped?"""
    stopped = False
    for number in numbers:
        stopped = stops(made, partial(sweep, process), number)
        found += faults_now(made)
    sweep(process)
    found += faults_at_the_end(made)
    return stopped


def reapers_stop(left: Left, deaths: int = 1) -> Faults:
    """So many reapers stop, one after the other, each before any of its writes."""
    found: Faults = []

    def play(numbers: tuple[int, ...]) -> bool:
        with memory("strict", LIMITS) as made:
            process = survivor(made)
            left.put(made)
            return recover(made, process, numbers, found)

    explore(play, deaths)
    return found


def owner_stops(operation: Operation, deaths: int = 1) -> Faults:
    """An owner that holds ``BOTH`` stops before any write of the operation; all deaths but this one are reapers'."""
    found: Faults = []

    def play(numbers: tuple[int, ...]) -> bool:
        with memory("strict", LIMITS) as made:
            process, owner = survivor(made), made.process()
            admission = Strict(owner, claim(owner))
            admission.reserve(BOTH, 0)
            stopped = stops(made, partial(operation, admission), numbers[0])
            owner.die()
            reaper_stopped = recover(made, process, numbers[1:], found)
            return reaper_stopped if numbers[1:] else stopped

    explore(play, deaths)
    return found


def claimer_stops() -> Faults:
    """A new owner stops before any of its first writes; the next one gets the same slot, clean."""
    found: Faults = []

    def play(numbers: tuple[int, ...]) -> bool:
        with memory("strict", LIMITS) as made:
            process, owner, heir = survivor(made), made.process(), made.process()
            stopped = stops(made, partial(claim, owner), numbers[0])
            owner.die()
            recover(made, process, (), found)
            found.extend([] if claim(heir) == 1 else ["slot 1 is lost"])
            return stopped

    explore(play, 1)
    return found


# --- rivals -----------------------------------------------------------------------------------------------------------

DEAD_BEHIND_TWO = Left(((), ((1, 2), (3, 0))), (2, 0))  # slot 1 is another live owner's
Rival = Callable[[Memory, Strict, Strict], object]


def _swap(_made: Memory, taker: Strict, giver: Strict) -> None:
    """The count is what it was, and the unit has moved from a slot to one that may have been read already."""
    taker.reserve(((0, 1),), 0)
    giver.release(((0, 1),))


def _come_and_go(made: Memory, _taker: Strict, _giver: Strict) -> None:
    """A new owner, wherever it finds a slot."""
    process = made.process()
    slot = claim(process)
    admission = Strict(process, slot)
    admission.reserve(BOTH, 0)
    admission.release(BOTH)
    mark_free(process, slot)
    process.die()


RIVALS: dict[str, Rival] = {
    "reserve": lambda made, taker, giver: taker.reserve(((0, 1),), 0),
    "release": lambda made, taker, giver: giver.release(((0, 1),)),
    "swap": _swap,
    "set a limit": lambda made, taker, giver: taker.segment.set_limits({0: 50}),
    "another reaper": lambda made, taker, giver: sweep(made.process()),
    "a new owner": _come_and_go,
}


def in_the_middle_of_a_sweep(rival: Rival) -> Faults:
    """The rival does it all right before any access of a sweep."""
    return _at_each_access(lambda made, taker, giver: sweep(made.process()), rival)


def sweep_in_the_middle_of(operation: Operation) -> Faults:
    """Somebody sweeps right before any access of a live owner's operation."""
    return _at_each_access(lambda made, taker, giver: operation(taker), RIVALS["another reaper"])


def _at_each_access(action: Rival, rival: Rival) -> Faults:
    found: Faults = []
    for number in itertools.count():
        with memory("strict", LIMITS) as made:
            process, other = survivor(made), made.process()
            DEAD_BEHIND_TWO.put(made)
            taker, giver = Strict(process, 0), Strict(other, claim(other))
            giver.reserve(((0, 1),), 0)
            made.words.before_access(number, partial(rival, made, taker, giver))
            action(made, taker, giver)
            never = made.words.undisturbed()
            sweep(process)
            found += faults_at_the_end(made, live=2)
        if never:
            break
    return found
