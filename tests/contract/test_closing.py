"""The end of a limiter: what it held comes back, and every later call says the one thing."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.contract.conftest import Kind, Open
from tests.support.oracle import assert_all_free
from tests.support.views import in_flight

CALLS: dict[str, Callable[[hardcap.Limiter], object]] = {
    "reserve": lambda limiter: limiter.reserve(),
    "reserve by name": lambda limiter: limiter.reserve(requests=1),
    "release": lambda limiter: limiter.release(),
    "release by name": lambda limiter: limiter.release(requests=1),
    "admit": lambda limiter: limiter.admit(),
    "limit": lambda limiter: limiter.limit,
    "limits": lambda limiter: limiter.limits,
    "set_limit": lambda limiter: limiter.set_limit(1),
    "in_flight": lambda limiter: limiter.in_flight,
    "available": lambda limiter: limiter.available,
    "held": lambda limiter: limiter.held,
    "snapshot": lambda limiter: limiter.snapshot(),
    "reap": lambda limiter: limiter.reap(),
    "mode": lambda limiter: limiter.mode,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_after_close(limiter: hardcap.Limiter, call: Callable[[hardcap.Limiter], object]) -> None:
    """B48: one clear error, which names the segment."""
    limiter.close()
    for _ in range(2):
        with pytest.raises(hardcap.SegmentClosed, match=f"{limiter.name}': found this limiter closed"):
            call(limiter)
        limiter.close()


def test_close_gives_back_what_is_held(pair: hardcap.Limiter, opened: Open) -> None:
    leaving = opened()
    assert leaving.reserve(2, tokens=7)
    permit = leaving.admit(tokens=1)
    assert pair.reserve(1, tokens=2)
    leaving.close()
    leaving.close()
    assert permit.released
    assert in_flight(pair) == {"requests": 1, "tokens": 2}
    assert len(pair.snapshot().processes) == 1


def test_a_with_block_closes(opened: Open, limiter: hardcap.Limiter) -> None:
    with pytest.raises(LookupError, match="mine"), opened() as other:
        assert other.reserve(3)
        raise LookupError("mine")
    with pytest.raises(hardcap.SegmentClosed):
        other.reserve()
    assert_all_free(limiter, 3)


def test_closed_inside_its_own_block(opened: Open, limiter: hardcap.Limiter) -> None:
    with opened() as other, other.admit():
        other.close()
    assert_all_free(limiter, 3)


def test_a_closed_one_in_a_with_block_is_still_closed(limiter: hardcap.Limiter, opened: Open) -> None:
    other = opened()
    other.close()
    with pytest.raises(hardcap.SegmentClosed), other:
        other.reserve()
    assert_all_free(limiter, 3)


def test_dropped_without_close_it_closes(limiter: hardcap.Limiter) -> None:
    pickle.loads(pickle.dumps(limiter))
    gc.collect()
    assert len(limiter.snapshot().processes) == 1


def test_dropped_while_it_holds_it_warns(pair: hardcap.Limiter) -> None:
    """A limiter that is opened anew for each call would let everybody in."""
    other = pickle.loads(pickle.dumps(pair))
    assert other.reserve(2, tokens=5)
    assert in_flight(pair) == {"requests": 2, "tokens": 5}
    text = f"limiter '{pair.name}' was dropped while it held {{'requests': 2, 'tokens': 5}}"
    with pytest.warns(ResourceWarning, match=text) as caught:
        del other
        gc.collect()
    (warning,) = caught
    assert warning.filename == __file__
    assert in_flight(pair) == {"requests": 0, "tokens": 0}


@pytest.mark.parametrize("flags", [("-W", "error", "-X", "dev"), ("-W", "always")], ids=["errors", "shown"])
def test_dropped_at_interpreter_exit_it_is_silent(
    spawn: Spawn, kind: Kind, name: str, segment_dir: Path, flags: tuple[str, ...]
) -> None:
    child = spawn(flags=flags)
    code = "import hardcap\nlimiter = hardcap.open(name, limit=3, directory=directory, **kind)\nlimiter.reserve()"
    child.run(code, name=name, directory=os.fspath(segment_dir), kind=dict(kind))
    assert child.finish() == 0


def test_a_permit_keeps_what_it_holds_when_its_limiter_is_dropped(limiter: hardcap.Limiter) -> None:
    other = pickle.loads(pickle.dumps(limiter))
    permit = other.admit(2)
    del other
    gc.collect()
    assert limiter.in_flight == 2
    assert permit.release()


def test_closing_twice_does_not_close_a_successor(opened: Open) -> None:
    first = opened(limit=3)
    first.close()
    second = opened(limit=3)
    assert second.reserve()
    first.close()
    assert second.in_flight == second.held == 1


def test_its_text_names_it(limiter: hardcap.Limiter, segment_dir: Path) -> None:
    assert repr(limiter) == f"<Limiter '{segment_dir / limiter.name}'>"
    limiter.close()
    assert repr(limiter) == f"<Limiter '{segment_dir / limiter.name}' closed>"
    assert limiter.name in repr(limiter)


def refused(limiter: hardcap.Limiter) -> None:
    limiter.admit(4)


def released(limiter: hardcap.Limiter) -> None:
    limiter.release(4)


def misused(limiter: hardcap.Limiter) -> None:
    limiter.reserve(-1)


def closed(limiter: hardcap.Limiter) -> None:
    limiter.close()
    limiter.reserve()


def reopened_otherwise(limiter: hardcap.Limiter) -> None:
    directory = Path(repr(limiter).split("'")[1]).parent
    other = "strict" if limiter.mode == "approximate" else "approximate"
    hardcap.open(limiter.name, limit=3, mode=other, directory=directory)


@pytest.mark.parametrize("way", [refused, released, misused, closed, reopened_otherwise])
def test_an_error_that_was_raised_can_be_pickled(
    limiter: hardcap.Limiter, way: Callable[[hardcap.Limiter], None]
) -> None:
    with pytest.raises(hardcap.HardcapError) as caught:
        way(limiter)
    back = pickle.loads(pickle.dumps(caught.value))
    assert (type(back), vars(back), str(back)) == (type(caught.value), vars(caught.value), str(caught.value))
