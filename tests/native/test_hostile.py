"""The native objects, used as nobody should: an error each time, and the process lives."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap import extension, recovery
from tests.conftest import Spawn
from tests.contract.conftest import Open
from tests.support.native import needs_native
from tests.support.oracle import assert_all_free
from tests.support.rounds import rounds

pytestmark = needs_native
native: Any = extension.native


@pytest.fixture
def opened(name: str, segment_dir: Path) -> Any:
    limiters: list[hardcap.Limiter] = []

    def start(**settings: Any) -> hardcap.Limiter:
        limiters.append(hardcap.open(name, directory=segment_dir, backend="native", **settings))
        return limiters[-1]

    yield start
    for limiter in limiters:
        limiter.close()


@pytest.fixture
def limiter(opened: Open) -> hardcap.Limiter:
    return opened(limit=3)


def test_calls_without_sense(spawn: Spawn, segment_dir: Path) -> None:
    child = spawn(noisy=True)  # it may tell of anything, and may not die
    child.run("import warnings\nwarnings.simplefilter('ignore')\nfrom tests.support.hostile import pester")
    for rng in rounds(4):
        with rng:
            child.run("pester(directory, seed, 2000)", directory=str(segment_dir), seed=rng.origin)


# --- made wrongly ---


@pytest.mark.parametrize("call", ["reserve", "release", "admit"])
def test_a_limiter_that_was_never_made(limiter: hardcap.Limiter, call: str) -> None:
    raw = object.__new__(type(limiter))
    for given in ((), (1,), (None, None)):
        with pytest.raises(ValueError, match="never opened"):
            getattr(raw, call)(*given)


def test_a_limiter_is_made_once(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    with other.admit() as permit:
        made_of = (other._connection, type(other._connection.admission), type(permit))
    with pytest.raises(ValueError, match="once"):
        type(limiter).__init__(limiter, *made_of)  # type: ignore[call-arg]
    for wrong in ((object(), *made_of[1:]), (made_of[0], int, made_of[2]), (made_of[0], made_of[1], type(limiter))):
        with pytest.raises(TypeError, match="native core"):
            type(limiter)(*wrong)


def test_no_subclass_and_no_permit_of_ones_own(limiter: hardcap.Limiter) -> None:
    with limiter.admit() as permit:
        for kind in (type(limiter), type(permit)):
            with pytest.raises(TypeError, match="not an acceptable base type"):
                type("Own", (kind,), {})
        with pytest.raises(TypeError, match="cannot create"):
            type(permit)()
        with pytest.raises(AttributeError):
            permit.extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("base", [int, dict, 1, type("WithFields", (), {"__slots__": ("field",)})])
def test_no_type_beside_another_layout(base: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        native.limiter_type(base)


def test_words_that_are_not_there() -> None:
    raw = native.Words.__new__(native.Words)
    raw.close(), raw.detach()
    for call, given in (("load", (0,)), ("column", (0, 1, 1)), ("settle", (0, 0, 0, 1, b"\0", 1))):
        with pytest.raises(ValueError, match="closed"):
            getattr(raw, call)(*given)


def test_words_of_wrong_memory() -> None:
    with pytest.raises(BufferError):
        native.Words(bytes(8))
    with pytest.raises(ValueError, match="aligned"):
        native.Words(memoryview(bytearray(32))[1:17])
    made = native.Words(bytearray(20))
    assert (made.load(0), made.load(1)) == (0, 0)
    with pytest.raises(IndexError):
        made.load(2)
    made.close()
    with pytest.raises(ValueError, match="once"):
        made.__init__(bytearray(8))


@pytest.mark.parametrize(
    "column", [(0, 11, 1), (10, 1, 1), (0, 6, 2), (-1, 1, 1), (0, -1, 1), (0, 1, 0), (9, 2, 2**62)]
)
def test_no_column_leaves_the_words(column: tuple[int, int, int]) -> None:
    words = native.Words(bytearray(80))
    assert words.column(0, 10, 1) == [0] * 10 and words.column(1, 5, 2) == [0] * 5 and words.column(99, 0, 1) == []
    with pytest.raises(IndexError):
        words.column(*column)


# --- changed in the middle ---


class Closing(int):
    """An amount that closes a limiter while it is looked at."""

    limiter: hardcap.Limiter

    def __ge__(self, other: object) -> bool:
        self.limiter.close()
        return True


@pytest.mark.parametrize("call", ["reserve", "release", "admit"])
def test_an_amount_that_closes_the_limiter(limiter: hardcap.Limiter, opened: Open, call: str) -> None:
    watcher = opened()
    amount = Closing(1)
    amount.limiter = limiter
    assert limiter.reserve()
    with pytest.raises(hardcap.SegmentClosed):
        getattr(limiter, call)(amount)
    assert_all_free(watcher, 3)


def closing_after(limiter: hardcap.Limiter) -> Callable[..., int]:
    """A second try that finds room, after which somebody closes the limiter."""

    def try_again(wanted: Any, headroom: int, refused: int) -> int:
        limiter.set_limit(3)
        answer: int = limiter._connection.admission.reserve(wanted, headroom)
        limiter.close()
        return answer

    return try_again


def test_closed_as_soon_as_it_has_admitted(limiter: hardcap.Limiter, opened: Open) -> None:
    watcher = opened()
    limiter.set_limit(0)
    limiter._connection.try_again = closing_after(limiter)  # type: ignore[method-assign]
    permit = limiter.admit()
    assert (permit.released, permit.release(), permit.amounts) == (True, False, {"requests": 1})
    assert_all_free(watcher, 3)


def test_closed_while_it_looks_for_dead_owners(
    limiter: hardcap.Limiter, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = opened()
    assert watcher.reserve(3)
    monkeypatch.setattr(recovery, "is_due", lambda segment: limiter.close())
    for call in (limiter.reserve, limiter.admit):
        with pytest.raises(hardcap.SegmentClosed):
            call()
    watcher.release(3)


# --- dropped ---


def test_a_permit_dropped_by_an_error_leaves_the_error_alone(limiter: hardcap.Limiter) -> None:
    with pytest.warns(ResourceWarning, match="'requests': 2"), pytest.raises(ZeroDivisionError):
        limiter.admit(2), 1 / 0
    assert_all_free(limiter, 3)


def test_a_weak_reference_to_a_permit_is_dead_before_the_warning(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit()
    seen: list[object] = []
    reference = weakref.ref(permit)
    limiter._connection.forgotten = lambda *_: seen.append(reference())  # type: ignore[method-assign]
    del permit
    assert seen == [None]
    del limiter._connection.forgotten


def test_a_limiter_in_a_cycle_is_collected(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    other = hardcap.open(limiter.name, directory=segment_dir)
    assert other.reserve(2)
    other._connection.knot = other  # type: ignore[attr-defined]
    reference = weakref.ref(other)
    del other
    with pytest.warns(ResourceWarning, match="dropped while it held {'requests': 2}"):
        gc.collect()
    assert reference() is None
    assert_all_free(limiter, 3)


AT_EXIT = """
import hardcap, sys, threading, time
limiter = hardcap.open(name, limit=9, directory=directory, backend="native")
permits = [limiter.admit() for _ in range(3)]
knot = [limiter.admit()]
knot.append(knot)
sys.modules["__main__"].kept = (limiter, permits)

class Late:
    def __del__(self):
        limiter.reserve()
        limiter.release()

late = Late()

def forever(reserve=limiter.reserve, release=limiter.release):
    while True:
        if reserve():
            release()

threading.Thread(target=forever, daemon=True).start()
"""


@pytest.mark.parametrize("flags", [(), ("-X", "dev")], ids=["plain", "dev"])
def test_at_exit_it_is_silent(spawn: Spawn, name: str, segment_dir: Path, flags: tuple[str, ...]) -> None:
    child = spawn(flags=flags)
    child.run(AT_EXIT, name=name, directory=str(segment_dir))
    assert child.finish() == 0


# --- looked at ---


@pytest.mark.parametrize("call", ["reserve", "release", "admit"])
def test_it_tells_how_it_is_called(limiter: hardcap.Limiter, call: str) -> None:
    shown = inspect.signature(getattr(limiter, call))
    promised = inspect.signature(getattr(hardcap.Limiter, call)).parameters.values()
    expected = [(one.name, one.kind, one.default) for one in promised if one.name != "self"]
    assert [(one.name, one.kind, one.default) for one in shown.parameters.values()] == expected
    assert inspect.getdoc(getattr(limiter, call)) == inspect.getdoc(getattr(hardcap.Limiter, call))
