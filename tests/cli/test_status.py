"""``hardcap status``: what live processes hold, as a table and for programs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import hardcap
from tests.cli.conftest import Hardcap
from tests.conftest import Spawn

LIMITS = {"requests": 10, "tokens": 1000}
ASKED = "limiter.reserve(2, tokens=300), [limiter.reserve(9) for _ in range(7)]"
PERMIT = "permit = limiter.admit(1)"


@pytest.fixture
def crew(attached: Spawn, mode: str) -> list[int]:
    """Two processes: one holds by ``reserve`` and was refused 7 times, one by a permit."""
    first, second = (attached(limits=LIMITS, mode=mode) for _ in range(2))
    assert first.run(ASKED) == [True, [False] * 7]
    second.run(PERMIT)
    return [first.pid, second.pid]


def test_all_segments_in_one_table(run: Hardcap, name: str, crew: list[int]) -> None:
    done = run("status", "--interval", "0")
    heading, _, requests, tokens = done.stdout.splitlines()
    assert " ".join(heading.split()) == "name resource limit in flight free refused/s alive dead oldest"
    assert requests.split()[:8] == [name, "requests", "10", "3", "7", "0", "2", "0"]
    assert tokens.split() == ["tokens", "1000", "300", "700", "0"]
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_one_in_detail(run: Hardcap, name: str, crew: list[int], mode: str) -> None:
    done = run("status", name, "--interval", "0")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name, f"{mode},", "read"] == lines[0][:3]
    rows = {int(line[0]): line[1:] for line in lines if line and line[0].isdigit()}
    assert rows.keys() == set(crew)
    assert rows[crew[0]][:6] == ["alive", "2", "300", "1", "7", "0"]
    assert rows[crew[0]][-1] == "-"
    assert rows[crew[1]][:6] == ["alive", "1", "0", "1", "0", "0"]
    assert rows[crew[1]][-1] in ("s", "m")  # the age of its permit
    assert ["in", "calls:", "admitted", "2", "(0/s),", "refused", "requests", "7,", "tokens", "0"] in lines


def test_the_dead_are_told_from_the_living(run: Hardcap, attached: Spawn, name: str) -> None:
    doomed = attached(limit=4)
    doomed.run("limiter.reserve(3)")
    attached()
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.process.wait()
    shown = run("status", "--interval", "0").stdout.splitlines()[2].split()
    assert shown[:8] == [name, "requests", "4", "3", "1", "0", "1", "1"]
    assert f"{doomed.pid} dead" in " ".join(run("status", name, "--interval", "0").stdout.split())


def test_for_programs(run: Hardcap, name: str, segment_dir: Path, crew: list[int]) -> None:
    (one,) = json.loads(run("status", "--json", "--interval", "0").stdout)
    assert one == json.loads(run("status", name, "--json", "--interval", "0").stdout)
    seen = hardcap.inspect(name, segment_dir)
    assert (one["name"], one["mode"], one["totals"]["rejected"]) == (seen.name, seen.mode, dict(seen.totals.rejected))
    assert [process["pid"] for process in one["processes"]] == crew
    assert one["per_second"] == {"admitted": 0, "rejected": {}}


def test_rates_are_of_the_interval(run: Hardcap, attached: Spawn, name: str) -> None:
    busy = attached(limit=1)
    busy.run("limiter.reserve(), [limiter.reserve() for _ in range(1000)]")  # long ago
    busy.post("import time\nwhile True:\n    limiter.reserve()\n    time.sleep(0.001)")
    one = json.loads(run("status", name, "--json", "--interval", "0.5").stdout)
    assert 0 < one["per_second"]["rejected"]["requests"] < 1000
    assert one["per_second"]["admitted"] == 0


def test_nothing_there(run: Hardcap, name: str, segment_dir: Path) -> None:
    done = run("status", "--interval", "0")
    assert (done.stdout, done.returncode) == (f"no segments in '{segment_dir}'\n", 0)
    assert run("status", "--json", "--interval", "0").stdout == "[]\n"
    done = run("status", name)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and name in done.stderr


def test_where_segments_cannot_be_is_named(run: Hardcap, segment_dir: Path) -> None:
    """Not a directory without segments."""
    (segment_dir / "file").touch()
    for command in ("status", "top"):
        done = run(command, "--dir", os.fspath(segment_dir / "file"))
        assert (done.stdout, done.returncode) == ("", 1)
        assert done.stderr.count("\n") == 1 and f"{segment_dir / 'file'}" in done.stderr and "a file" in done.stderr


def test_what_cannot_be_read_is_named(run: Hardcap, attached: Spawn, name: str, segment_dir: Path) -> None:
    attached(limit=1)
    (segment_dir / "stranger").write_text("something else")
    done = run("status", "--interval", "0")
    assert name in done.stdout
    assert done.returncode == 1
    assert done.stderr.startswith("hardcap: segment ") and "stranger" in done.stderr
    assert done.stderr.count("\n") == 1
