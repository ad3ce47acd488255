"""``python -m bench modes`` on real processes: an exit status that tells what went wrong, and what whole figures are.

They are checked where all of them are measured, once: with the report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.report_runs import SMALLEST
from tests.support.commands import interrupted, run, started
from tests.support.processes import eventually

SMALL = ("--quick", *SMALLEST["modes"])
SUBJECTS = {"none", "BoundedSemaphore", "RawArray slots", "strict/atomics", "approximate/atomics"}


def check_modes(results: dict[str, Any], printed: str) -> None:
    """Every figure of every subject."""
    rows = results["subjects"]
    assert {(row["name"], row["processes"]) for row in rows} >= {(name, n) for name in SUBJECTS for n in (1, 2)}
    for row in rows:
        check_durations(row)
        check_witness(row)
    assert results["ratios"]["processes"] == 2
    assert results["ratios"].keys() >= {"strict/atomics", "approximate/atomics"}
    assert results["attach_ms"] > 0
    assert 0 < results["segment_bytes"] <= 64 * 1024
    assert results["machine"]["backend"] in ("atomics", "atomics, native")
    assert results["sound"] is True
    cells = [line.split() for line in printed.splitlines()]
    assert all(sum(line[:2] == [n, name.split()[0]] for line in cells) == 2 for n in "12" for name in SUBJECTS)


def check_durations(row: dict[str, Any]) -> None:
    for call in ("reserve_ns", "release_ns"):
        assert 0 < row[call]["p50"] <= row[call]["p90"] <= row[call]["p99"] <= row[call]["p99.9"]
    assert row["pair_ns"] > 0
    assert row["pairs_per_second"] > 0
    assert row["ratio"] > 0
    assert row["samples"] > 0


def check_witness(row: dict[str, Any]) -> None:
    """Twice the limit is asked for at once: who has no cap lets all of it in, and the witness sees it."""
    limit, asked = row["limit"], row["bursts"]["admitted"] + row["bursts"]["refused"]
    assert row["kept"] is True
    if row["name"] == "none":
        assert row["peak_holders"] == 2 * limit
        assert row["bursts"]["refused"] == 0
    if row["name"].startswith(("strict", "BoundedSemaphore")):
        assert row["peak_holders"] == row["bound"] == limit
        assert row["bursts"]["admitted"] == asked // 2
    if row["name"].startswith("approximate"):
        assert row["bound"] == limit + row["processes"] - 1
        assert row["peak_holders"] <= row["bound"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("liar", "broken: liar, 2 processes: 20 holders seen, 10 promised"),
        ("mortal", "died, exit status 3"),
        ("faulty", "ArithmeticError: lost count"),
    ],
)
def test_a_broken_subject_is_exit_status_1(kind: str, said: str, segment_dir: Path) -> None:
    done = run("tests.support.subjects", kind, *SMALL, "--processes", "2", "--scratch", str(segment_dir))
    assert done.returncode == 1
    assert said in done.stdout + done.stderr
    assert not list(segment_dir.iterdir())


def test_ended_by_a_signal_it_leaves_nothing(segment_dir: Path) -> None:
    with started("bench", "modes", *SMALL, "--scratch", str(segment_dir)) as process:
        eventually(lambda: any(segment_dir.glob("*/*witness*")), "the first subject before the witness")
        assert interrupted(process) == (130, "bench modes: interrupted")
    assert not list(segment_dir.iterdir())


def test_a_file_that_cannot_be_written_is_exit_status_2(tmp_path: Path) -> None:
    done = run("bench", "modes", *SMALL, "--json", str(tmp_path / "absent" / "modes.json"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench modes: cannot write '")
    assert done.stderr.count("\n") == 1
