"""Storms of kills, in short, and what shows that they would see a fault. `make torture` runs the long form."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Spawn
from tests.support.forms import FULL
from tests.support.processes import Child
from tests.support.rounds import SEED
from tests.torture.broken import FAULTS
from tests.torture.deaths import Times
from tests.torture.plan import PLANS, Plan
from tests.torture.storm import Outcome

KILLS, SECONDS = (100, 4.0) if FULL else (60, 3.0)
ROUNDS = 10  # that a control has for being caught
RUN = """
from dataclasses import asdict
from tests.torture import storm
from tests.torture.plan import Plan
asdict(storm.run(Plan(**plan), name, directory, kills=kills, seconds=seconds, seed=seed))
"""
HURRIED = Plan("hurried", pause=0.0002, backends=["atomics"])  # most of the time inside an operation


def storm(conductor: Child, name: str, directory: Path, plan: Plan, seed: int = SEED) -> Outcome:
    """In a process of its own, whose forked children the workers are."""
    settings = {"plan": asdict(plan), "kills": KILLS, "seconds": SECONDS, "seed": seed}
    found: dict[str, Any] = conductor.run(RUN, name=name, directory=os.fspath(directory), **settings)
    return Outcome(**{**found, "times": Times(**found["times"])})


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.title)
def test_nothing_is_lost_in_a_storm(spawn: Spawn, name: str, segment_dir: Path, plan: Plan) -> None:
    """B01: killed anywhere, alone or two at an instant, stopped anywhere, forked while holding: the cap holds, each
    unit comes back once, and nobody who survives is held up."""
    outcome = storm(spawn(), name, segment_dir, plan)
    assert (outcome.violations, outcome.faults) == (0, [])
    assert outcome.kills and outcome.stops and outcome.admitted and outcome.refused


def test_the_ledger_sees_an_uncapped_storm(spawn: Spawn, name: str, segment_dir: Path) -> None:
    """Control: the same workers, and nobody asks hardcap."""
    assert storm(spawn(), name, segment_dir, Plan("uncapped", capped=False)).violations


@pytest.mark.timeout(300)  # on a busy machine it may take all its rounds until one is killed at the right moment
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_recovery_is_seen(spawn: Spawn, name: str, segment_dir: Path, fault: str) -> None:
    """Control: with one line of recovery broken, a storm finds too many in flight, or too few units left."""
    conductor = spawn(noisy=True)  # workers find that what they hold is gone
    conductor.run("from tests.torture import broken\nbroken.apply(fault)", fault=fault)
    storms = (storm(conductor, name, segment_dir, HURRIED, SEED + number) for number in range(ROUNDS))
    assert any(found.violations or found.faults for found in storms)
