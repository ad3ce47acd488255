"""Deaths are timed until the units are really back, and told apart."""

from __future__ import annotations

from pathlib import Path

import hardcap
from hardcap.viewing import viewing
from tests.conftest import Spawn
from tests.support.oracle import assert_all_free
from tests.support.processes import Child, eventually
from tests.torture.deaths import Deaths
from tests.torture.ledger import now

CUT_IN_HALF = "admission = limiter._connection.admission\nadmission._announce(0, 1)"


def kill(child: Child, deaths: Deaths) -> None:
    slot = deaths.owners()[child.pid]
    incarnation, killed_at = deaths.incarnation(slot), now()
    child.kill()
    deaths.died(slot, incarnation, killed_at)


def test_what_is_held_is_back_with_the_sweep(attached: Spawn, name: str, segment_dir: Path) -> None:
    """One who holds nothing is not timed."""
    holder, idle = attached(limit=3), attached()
    holder.run("limiter.reserve(2)")
    with hardcap.open(name, directory=segment_dir) as observer, viewing(name, segment_dir) as words:
        deaths = Deaths(words)
        kill(holder, deaths)
        kill(idle, deaths)
        deaths.look([])
        assert (deaths.awaited, deaths.times.whole) == (1, [])
        assert observer.reap() == 2
        deaths.look([])
        assert (deaths.awaited, len(deaths.times.whole)) == (0, 1)
        assert_all_free(observer, 3)


def test_a_slot_with_a_new_owner_owes_nothing(attached: Spawn, name: str, segment_dir: Path) -> None:
    holder = attached(limit=3)
    holder.run("limiter.reserve(2)")
    with hardcap.open(name, directory=segment_dir) as observer, viewing(name, segment_dir) as words:
        deaths = Deaths(words)
        slot = deaths.owners()[holder.pid]
        kill(holder, deaths)
        observer.reap()
        heir = attached()
        assert heir.run("limiter.reserve(3)")
        assert deaths.owners()[heir.pid] == slot
        deaths.look([])
        assert (deaths.awaited, len(deaths.times.whole)) == (0, 1)


def test_one_stopped_inside_an_operation_holds_up_the_cut_in_half(
    attached: Spawn, name: str, segment_dir: Path
) -> None:
    """And nobody else: what is held comes back meanwhile. Strict mode, whose operations have two halves."""
    cut, holder, stopped = (attached(limit=3, backend="atomics") for _ in range(3))
    for child in (cut, stopped):
        child.run(CUT_IN_HALF)
    holder.run("limiter.reserve()")
    with hardcap.open(name, directory=segment_dir) as observer, viewing(name, segment_dir) as words:
        deaths = Deaths(words)
        slot = deaths.owners()[stopped.pid]
        stopped.stop()
        kill(cut, deaths)
        kill(holder, deaths)
        observer.reap()
        deaths.look([slot])
        assert (deaths.awaited, len(deaths.times.whole)) == (1, 1)
        stopped.resume()
        stopped.run("admission._words.fetch_add(admission._own[0], -1 << 32)")
        eventually(lambda: observer.reap() == 1, "the operation cut in half is settled")
        deaths.look([])
        assert (deaths.awaited, len(deaths.times.held_up), deaths.times.cut) == (0, 1, [])
        assert_all_free(observer, 3)
