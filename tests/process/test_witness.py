"""The independent witness, over real processes: it must be right, for it judges all the others."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.witness import Witness
from tests.conftest import Spawn
from tests.support.processes import Child, eventually

PROCESSES = 4
EACH = 10
OPEN = "from bench.witness import Witness\nwitness = Witness(path)"
ENTER = "tokens = [witness.enter() for _ in range(count)]"


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    witness = Witness(tmp_path / "witness")
    yield witness
    witness.close()


@pytest.fixture
def holders(spawn: Spawn, tmp_path: Path, witness: Witness) -> list[Child]:
    """Processes of which nobody stops any: each has let ``EACH`` in."""
    children = [spawn() for _ in range(PROCESSES)]
    for child in children:
        child.post(f"{OPEN}\n{ENTER}", path=str(tmp_path / "witness"), count=EACH)
    for child in children:
        child.answer()
    return children


def test_catches_an_uncapped_run(witness: Witness, holders: list[Child]) -> None:
    assert witness.current == witness.peak == PROCESSES * EACH
    assert witness.holders() == {child.pid: EACH for child in holders}


def test_peak_stays_when_all_have_left(witness: Witness, holders: list[Child]) -> None:
    for child in holders:
        child.run("for token in tokens: witness.leave(token)")
    assert witness.current == 0
    assert witness.peak == PROCESSES * EACH


def test_peak_is_of_one_instant(witness: Witness, holders: list[Child]) -> None:
    """Processes that come and go at once raise it by at most one each, however often they do."""
    for child in holders:
        child.post("for _ in range(500): witness.leave(witness.enter())")
    for child in holders:
        child.answer()
    assert PROCESSES * EACH < witness.peak <= PROCESSES * EACH + PROCESSES
    assert witness.current == PROCESSES * EACH


def test_the_killed_no_longer_count(witness: Witness, holders: list[Child]) -> None:
    holders[0].kill(reap=False)
    eventually(lambda: witness.current == (PROCESSES - 1) * EACH, "the locks of a killed process are gone")
    assert holders[0].pid not in witness.holders()


def test_nobody_moves_while_it_is_held_still(witness: Witness, holders: list[Child]) -> None:
    with witness.held_still() as counted:
        holders[0].post("witness.leave(tokens.pop())")
        with pytest.raises(TimeoutError):
            holders[0].answer(deadline=0.2)
        assert counted.total() == PROCESSES * EACH
    holders[0].answer()
    assert witness.current == PROCESSES * EACH - 1


def test_a_forked_child_counts_for_itself(witness: Witness) -> None:
    token = witness.enter()
    child = os.fork()
    if child == 0:
        own = witness.enter()
        os._exit(0 if witness.holders() == {os.getppid(): 1, os.getpid(): 1} and own == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert witness.holders() == {os.getpid(): 1}
    witness.leave(token)
    assert witness.current == 0
    assert witness.peak == 2


def test_threads_share_one(witness: Witness) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=_come_and_go, args=(witness,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert witness.current == 0
    assert 1 <= witness.peak <= 8


def _come_and_go(witness: Witness) -> None:
    for _ in range(200):
        witness.leave(witness.enter())


def test_a_token_is_good_once(witness: Witness) -> None:
    token = witness.enter()
    witness.leave(token)
    with pytest.raises(ValueError, match=f"token {token} is not held by process {os.getpid()}"):
        witness.leave(token)
    assert witness.current == 0
