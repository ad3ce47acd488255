"""``python -m bench http`` on real servers: complete figures, and an eye that sees a middleware that is too slow."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.baselines import Hardcap
from bench.clients import Tally
from bench.figures import Figures
from bench.http_direct import AGAIN, BARE, CORS, CORS_ORIGIN, HARDCAP, REFUSAL, ROUTE, SPINNING
from bench.http_outcome import Http, Load
from bench.machine import describe
from tests.support.commands import complaints, interrupted, run, started
from tests.support.processes import eventually

SMALL = ("--quick", "--laps", "3", "--rounds", "5", "--seconds", "0.15")
MODE = Hardcap("strict", "native", "")


@pytest.mark.timeout(300)
def test_every_figure_and_the_slow_middleware_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "http.json"
    done = run("bench", "http", *SMALL, "--json", str(file))
    assert (done.returncode, complaints(done.stderr)) == (0, "")
    results = json.loads(file.read_text())
    assert (results["sound"], results["blind"], results["failed"]) == (True, [], {})
    check_direct(results)
    check_servers(results["servers"])
    assert all(goal["observed"] > 0 for goal in results["goals"])
    assert len(results["goals"]) == 7
    assert len(results["controls"]) == 6
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    assert "…" not in done.stdout


def check_direct(results: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in results["direct"]}
    assert list(rows) == [BARE, AGAIN, HARDCAP, CORS, CORS_ORIGIN, SPINNING, ROUTE, REFUSAL]
    assert all(0 < row["least_request_ns"] <= row["request_ns"] for row in rows.values())
    assert rows[SPINNING]["least_request_ns"] > 200_000


def check_servers(sides: dict[str, Any]) -> None:
    assert list(sides) == ["bare", "bare again", "hardcap", "spinning", "unloaded", "overloaded"]
    for name, side in sides.items():
        assert (side["rounds"], side["errors"]) == (5, {})
        assert side["admitted"] > 0
        assert (side["refused"] > 0) is (name == "overloaded")
        assert 1 <= side["admitted_p50_ms"] <= side["admitted_p99_ms"]


def test_ended_by_a_signal_it_leaves_nothing(segment_dir: Path) -> None:
    with started("bench", "http", *SMALL, "--seconds", "9", "--scratch", str(segment_dir)) as process:
        eventually(lambda: any(segment_dir.glob("*/full.log")), "servers start")
        assert interrupted(process) == (130, "bench http: interrupted")
    assert not list(segment_dir.iterdir())


def test_a_package_that_is_not_there_is_exit_status_2(tmp_path: Path) -> None:
    Path(tmp_path, "uvloop.py").write_text("raise ImportError('no such package')")
    done = run("bench", "http", *SMALL, env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench http: cannot import 'uvloop' (no such package); install the extra 'bench'")


# --- what it insists on ----------------------------------------------------------------------------------------------


def outcome(spinning: int = 80, direct: float = 200.0, **more: Load) -> Http:
    """What was found where bare applications answer 100 a round, and CORSMiddleware adds 10 ns to 1."""
    times = {BARE: 1.0, AGAIN: 1.0, HARDCAP: 6.0, CORS: 11.0, CORS_ORIGIN: 11.0, ROUTE: 20.0, REFUSAL: 9.0}
    figures = {name: replace(Figures(MODE, 1, 1), pair_ns=[ns]) for name, ns in (times | {SPINNING: direct}).items()}
    loads = {name: load(100) for name in ("bare", "bare again", "hardcap", "unloaded")}
    return Http(
        describe("native"), MODE, figures, loads | {"spinning": load(spinning), "overloaded": load(9, 400)} | more
    )


def load(admitted: int, refused: int = 0, errors: int = 0) -> Load:
    made = Load()
    made.add(Tally([0.1] * admitted, [0.01] * refused, Counter({"TimeoutError": errors} if errors else {})), 1.0, 1.0)
    return made


def test_as_expected_it_is_sound_and_every_goal_is_met() -> None:
    found = outcome()
    assert found.sound
    assert all(ratio.goal.met for ratio in found.ratios())
    assert all(goal.met for goal in found.goals())
    assert [ratio.observed for ratio in found.ratios()] == [0.5, 0.5, 0.45]
    assert [goal.observed for goal in found.goals()] == [1.0, 1.0, 4.0, 1.0]


@pytest.mark.parametrize(("spinning", "direct"), [(97, 200.0), (80, 11.0)])
def test_a_run_that_does_not_see_the_slow_middleware_is_unsound(spinning: int, direct: float) -> None:
    found = outcome(spinning, direct)
    assert found.blind
    assert not found.sound


@pytest.mark.parametrize("side", [load(100, refused=1), load(100, errors=1)])
def test_a_request_that_failed_makes_it_unsound(side: Load) -> None:
    found = outcome(hardcap=side)
    assert list(found.failed) == ["hardcap"]
    assert not found.sound


def test_one_pace_too_blurred_to_show_it_is_told() -> None:
    spinning = load(100)
    spinning.admitted_per_processor_second = [80.0]
    found = replace_side("spinning", spinning)
    assert found.blurred == ["requests a second, spinning / bare"]
    assert found.sound


def replace_side(name: str, side: Load) -> Http:
    found = outcome()
    return replace(found, loads={**found.loads, name: side})


def test_a_pace_below_the_goal_is_missed_and_no_failure() -> None:
    found = outcome(hardcap=load(96))
    assert [goal.met for goal in found.goals()] == [False, False, True, True]
    assert found.sound
