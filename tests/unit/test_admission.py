"""What both modes share: calls entered again in the middle of one another, closing meanwhile, permits noted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from hardcap import layout
from hardcap.admission import ADMITTED, Admission
from hardcap.amounts import Wanted
from hardcap.approximate import Approximate
from hardcap.errors import ReleaseError, SegmentClosed
from hardcap.ownership import claim
from hardcap.strict import Strict
from tests.support.memory import Memory, memory

MODES: dict[str, type[Admission]] = {"strict": Strict, "approximate": Approximate}
LIMITS = {"requests": 3, "tokens": 9}
HELD = ((0, 2), (1, 5))


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(mode: str) -> Iterator[Memory]:
    with memory(mode, LIMITS) as made:
        yield made


@pytest.fixture
def admission(made: Memory, mode: str) -> Admission:
    return admitted(made, mode)


def admitted(made: Memory, mode: str) -> Admission:
    """One that holds ``HELD``."""
    process = made.process()
    admission = MODES[mode](process, claim(process))
    assert admission.reserve(HELD, 0) == ADMITTED
    return admission


# --- a signal handler, or a finalizer, in the middle -----------------------------------------------------------------


def reserve(admission: Admission) -> dict[int, int]:
    return {0: 1, 1: 1} if admission.reserve(((0, 1), (1, 1)), 0) == ADMITTED else {}


def release(admission: Admission, wanted: Wanted = ((0, 1), (1, 1))) -> dict[int, int]:
    try:
        admission.release(wanted)
    except ReleaseError:
        return {}
    return {index: -units for index, units in wanted}


def release_all(admission: Admission) -> dict[int, int]:
    return release(admission, HELD)


def release_one_of_them(admission: Admission) -> dict[int, int]:
    return release(admission, ((1, 5),))


def look(admission: Admission) -> dict[int, int]:
    """Nobody ever sees what cannot be."""
    assert admission.held(0) in range(4)
    assert admission.held(1) in range(10)
    return {}


def refuse(admission: Admission) -> dict[int, int]:
    admission.refuse(0)
    return {}


def permit(admission: Admission) -> dict[int, int]:
    admission.permit_out(1, 100)
    admission.permit_back(1)
    return {}


Call = Callable[[Admission], dict[int, int]]  # gives the change in what is held
CALLS: list[Call] = [reserve, release, release_all, release_one_of_them, look, refuse, permit]


@pytest.mark.parametrize("inner", CALLS)
@pytest.mark.parametrize("outer", CALLS)
def test_a_call_in_the_middle_of_a_call(mode: str, outer: Call, inner: Call) -> None:
    """At every access to memory: no deadlock, no unit lost or given back twice, each caller told the truth."""
    for number in itertools.count():
        with memory(mode, LIMITS) as made:
            admission = admitted(made, mode)
            changes: list[dict[int, int]] = []
            made.words.before_access(number, lambda: changes.append(inner(admission)))  # noqa: B023
            changes.append(outer(admission))
            if made.words.undisturbed():
                return
            for index, held in HELD:
                now = held + sum(change.get(index, 0) for change in changes)
                assert now >= 0
                assert (admission.held(index), made.held(0, index), made.pending(0, index)) == (now, now, 0)
                assert made.count(index) == (now if mode == "strict" else 0)


@pytest.mark.parametrize("call", [reserve, release, release_all, look])
def test_a_limiter_closed_in_the_middle_of_a_call(mode: str, call: Call) -> None:
    """At every access: the call comes to its end, then all is given back, once; the next call is told."""
    for number in itertools.count():
        with memory(mode, LIMITS) as made:
            admission = admitted(made, mode)
            ends: list[int] = []

            def clear_up(admission: Admission = admission, ends: list[int] = ends) -> None:
                admission.give_back_all()
                ends.append(admission.held(0) + admission.held(1))

            made.words.before_access(number, lambda: admission.close(clear_up))  # noqa: B023
            call(admission)
            if made.words.undisturbed():
                return
            assert ends == [0]
            assert made.count() == 0
            with pytest.raises(SegmentClosed):
                admission.reserve(((0, 1),), 0)


def test_permits_noted_in_the_middle_of_one_another(mode: str) -> None:
    """Whatever a handler adds or takes away, what is shown in the end is the oldest."""
    for number in itertools.count():
        with memory(mode, LIMITS) as made:
            admission = admitted(made, mode)
            admission.permit_out(1, 100)

            def handler(admission: Admission = admission) -> None:
                admission.permit_back(1)
                admission.permit_out(3, 300)

            made.words.before_access(number, handler)
            admission.permit_out(2, 200)
            if made.words.undisturbed():
                return
            assert made.words.load(layout.slot(0) + layout.S_OLDEST_PERMIT) == 200
            admission.permit_back(2)
            admission.permit_back(3)
            assert made.words.load(layout.slot(0) + layout.S_OLDEST_PERMIT) == 0


# --- the end ---------------------------------------------------------------------------------------------------------


def test_every_call_after_the_end(admission: Admission) -> None:
    admission.close(lambda: None)
    for call in (reserve, release):
        with pytest.raises(SegmentClosed):
            call(admission)
    with pytest.raises(SegmentClosed), admission.visit():
        pass


def test_what_is_only_noted_is_not_noted_after_the_end(made: Memory, admission: Admission) -> None:
    admission.permit_out(1, 100)
    admission.close(lambda: None)
    before = [made.words.load(word) for word in range(layout.slot(1))]
    admission.refuse(0)
    admission.permit_back(1)
    admission.permit_out(2, 200)
    assert [made.words.load(word) for word in range(layout.slot(1))] == before


def test_it_ends_once(admission: Admission) -> None:
    ends: list[str] = []
    admission.close(lambda: ends.append("first"))
    admission.close(lambda: ends.append("second"))
    assert ends == ["first"]


def test_visitors_put_the_end_off(admission: Admission) -> None:
    ends: list[str] = []
    with admission.visit():
        with admission.visit():
            admission.close(lambda: ends.append("closed"))
            assert admission.held(0) == 2
        assert ends == []
    assert ends == ["closed"]


def test_a_visitor_that_fails_is_gone_all_the_same(admission: Admission) -> None:
    with pytest.raises(LookupError), admission.visit():
        raise LookupError
    ends: list[str] = []
    admission.close(lambda: ends.append("closed"))
    assert ends == ["closed"]


def test_a_forked_child_waits_for_nobody(admission: Admission) -> None:
    """Its parent's thread held the lock, and is not there."""
    inside, leave = Event(), Event()

    def hold() -> None:
        with admission._lock:
            inside.set()
            leave.wait()

    thread = Thread(target=hold)
    thread.start()
    inside.wait()
    admission.disown()
    with pytest.raises(SegmentClosed):
        reserve(admission)
    leave.set()
    thread.join()


def test_all_that_is_held(admission: Admission) -> None:
    assert admission.holding() == HELD
    admission.release(((0, 2),))
    assert admission.holding() == ((1, 5),)
    admission.release(((1, 5),))
    assert admission.holding() == ()


def test_totals_are_of_calls(made: Memory, admission: Admission) -> None:
    block = layout.slot(0)
    admission.release(((0, 1), (1, 5)))
    admission.refuse(1)
    admission.refuse(1)
    with pytest.raises(ReleaseError):
        admission.release(((0, 2),))
    shown = [made.words.load(block + field) for field in (layout.S_ADMITTED, layout.S_RELEASED, layout.S_REFUSED + 1)]
    assert shown == [1, 1, 2]
