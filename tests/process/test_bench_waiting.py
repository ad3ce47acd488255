"""``python -m bench waiting`` on real processes: complete figures, and a measure that sees one who spins."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import hardcap
from bench import waiting_runs
from bench.machine import describe
from bench.waiting_runs import SLEEPS, WAYS, Waited, Waiting
from tests.conftest import Spawn
from tests.support.commands import run

COST = "from bench import waiting_runs\nwaiting_runs._cost(limiter, waiting_runs.by_thread, 0.2)"


def test_every_figure_of_every_cell(tmp_path: Path) -> None:
    file = tmp_path / "waiting.json"
    done = run("bench", "waiting", "--quick", "--rounds", "2", "--seconds", "0.1", "--json", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(file.read_text())
    cells = {(cell["subject"], cell["way"], cell["sleep"]): cell for cell in results["cells"]}
    modes = {subject.partition("/")[0] for subject, _, _ in cells}
    assert modes == set(hardcap.Mode)
    subjects = {subject for subject, _, _ in cells}
    assert cells.keys() == set(itertools.product(subjects, WAYS, SLEEPS))
    for cell in cells.values():
        assert cell["samples"] == 2
        assert cell["latency_ns"]["p50"] > 0 < cell["cost"]
    assert results["sound"] is True
    assert [goal["allowed"] for goal in results["goals"]] == [10, 10, 1]
    assert max(len(line) for line in done.stdout.splitlines() if "commit" not in line) <= 100


def test_the_cost_of_one_that_spins_misses_the_goal(attached: Spawn) -> None:
    """Control: the same measure of waiters that ask without sleeping."""
    child = attached(limit=0)
    child.run("import hardcap.bell\nhardcap.bell.sleep = lambda address: False")
    spinning = Waited("strict", "thread", "futex", [1], child.run(COST))
    polling = Waited("strict", "thread", "polling", [1], 0.0)
    *_, cost = Waiting(describe("native"), [spinning, polling]).goals()
    assert cost.observed > 3
    assert not cost.met


def test_an_admission_before_the_release_is_unsound() -> None:
    """Control: it had the one unit while it was held."""
    early = Waited("strict", "thread", "futex", [5, -1, 7], 0.0)
    assert not Waiting(describe("native"), [early]).sound
    assert waiting_runs.WAITERS == 100
