"""What both modes share: visitors, the end, forks, what is held and what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from hardcap import layout
from hardcap.admission import Admission
from hardcap.errors import ReleaseError, SegmentClosed
from tests.support.admissions import HELD, LIMITS, MODES, admitted, release, reserve
from tests.support.memory import Memory, memory


@pytest.fixture(params=MODES)
def made(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with memory(request.param, LIMITS) as made:
        yield made


@pytest.fixture
def admission(made: Memory) -> Admission:
    return admitted(made)


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
