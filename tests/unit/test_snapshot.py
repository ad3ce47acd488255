"""Reading a segment while it changes under the reader's eyes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hardcap import layout
from hardcap.admission import Admission
from hardcap.approximate import Approximate
from hardcap.layout import pack
from hardcap.ownership import claim
from hardcap.recovery import sweep
from hardcap.slots import mark_free
from hardcap.snapshot import ProcessSnapshot, Totals, in_flight, read
from hardcap.strict import Strict
from tests.support.memory import Memory, Process, memory

ONE = ((0, 1),)


@pytest.fixture(params=["strict", "approximate"])
def made(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with memory(request.param, {"requests": 5, "tokens": 9}) as made:
        yield made


@pytest.fixture
def reader(made: Memory) -> Process:
    """Looks from outside, and owns no slot."""
    return made.process()


def owner(made: Memory, units: int = 1) -> tuple[Process, int, Admission]:
    process = made.process()
    slot = claim(process)
    admission = (Strict if made.shape.mode == "strict" else Approximate)(process, slot)
    admission.reserve(((0, units),), 0)
    return process, slot, admission


def processes(reader: Process) -> tuple[ProcessSnapshot, ...]:
    return read(reader, "memory").processes


def test_the_dead_are_shown_until_they_are_recovered(made: Memory, reader: Process) -> None:
    owner(made)
    dying, slot, _ = owner(made, 2)
    dying.die()
    assert [(process.slot, process.alive, process.held) for process in processes(reader)] == [
        (0, True, 1),
        (slot, False, 2),
    ]
    assert in_flight(reader, 0) == 3
    sweep(reader)
    assert [process.slot for process in processes(reader)] == [0]
    assert in_flight(reader, 0) == 1
    assert read(reader, "memory").totals == Totals(2, {"requests": 0, "tokens": 0}, 0, recovered_owners=1)


def test_ones_own_slot_is_alive_without_asking(made: Memory) -> None:
    """The kernel does not tell one of one's own lock."""
    process, slot, _ = owner(made)
    assert [seen.alive for seen in read(process, "memory", slot).processes] == [True]
    assert [seen.alive for seen in read(process, "memory").processes] == [False]


@pytest.mark.parametrize("field", [layout.S_PID, layout.S_STARTED_AT, layout.S_ADMITTED, layout.S_OLDEST_PERMIT])
def test_a_change_of_owner_is_never_shown_half(made: Memory, reader: Process, field: int) -> None:
    """The slot changes hands right before that field is read: shown is the new owner, whole."""
    first, slot, old = owner(made)
    made.words.store(layout.slot(slot) + layout.S_PID, 111)

    def change_hands() -> None:
        old.give_back_all()
        mark_free(first, slot)
        first.die()
        assert owner(made, 2)[1] == slot
        made.words.store(layout.slot(slot) + layout.S_PID, 222)

    made.words.before("load", layout.slot(slot) + field, change_hands)
    (seen,) = processes(reader)
    assert (seen.pid, seen.held, seen.admitted) == (222, 2, 1)


def test_an_owner_that_leaves_while_it_is_read_is_not_shown(made: Memory, reader: Process) -> None:
    process, slot, admission = owner(made)

    def leave() -> None:
        admission.give_back_all()
        mark_free(process, slot)

    made.words.before("load", layout.slot(slot) + layout.S_PID, leave)
    assert processes(reader) == ()


def test_what_is_pending_is_not_shown_as_held(made: Memory, reader: Process) -> None:
    _, slot, _ = owner(made)
    made.words.store(layout.slot_word(slot, 0), pack(1, 3))
    assert processes(reader)[0].held == 1


def test_totals_are_over_the_living_and_the_dead(made: Memory, reader: Process) -> None:
    seen = []
    for _ in range(3):
        process, _, admission = owner(made)
        admission.refuse(1)
        admission.release(ONE)
        seen.append(read(reader, "memory").totals)
        process.die()
        sweep(reader)
        seen.append(read(reader, "memory").totals)
    assert [total.admitted for total in seen] == [1, 1, 2, 2, 3, 3]
    assert [total.released for total in seen] == [1, 1, 2, 2, 3, 3]
    assert [total.rejected["tokens"] for total in seen] == [1, 1, 2, 2, 3, 3]
    assert [total.recovered_owners for total in seen] == [0, 1, 1, 2, 2, 3]


def test_a_segment_that_was_never_used(reader: Process) -> None:
    shown = read(reader, "memory")
    assert (shown.processes, shown.totals) == ((), Totals(0, {"requests": 0, "tokens": 0}, 0, recovered_owners=0))
    assert [(resource.in_flight, resource.available) for resource in shown.resources] == [(0, 5), (0, 9)]
