"""The overload benchmark, as a user starts it."""

from __future__ import annotations

import asyncio
import copy
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import overload_report
from bench.clients import Crowd
from bench.report_runs import SMALLEST
from bench.results import Unusable
from bench.server import HOST, Server, keep_port
from tests.support.commands import called, run, started
from tests.support.leaks import SCRATCH
from tests.support.processes import DEADLINE, eventually

SHORT = SMALLEST["overload"]


def assert_unusable(ended: subprocess.CompletedProcess[str], *told: str) -> None:
    """Exit status 2 and one line, before any server was started."""
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    for text in ("bench overload: ", *told):
        assert text in line


# --- the whole of it, on real servers --------------------------------------------------------------------------------


def check_overload(results: dict[str, Any], printed: str) -> None:
    """It shows the fault, and what a shared cap does. Called where the report runs it."""
    assert_shape(results)
    assert results["control"]["peak_in_flight"] > 40
    peaks = {name: figures["peak_in_flight"] for name, figures in results["modes"].items()}
    assert peaks["per-process"] > 20
    assert 10 <= peaks["approximate"] <= 13
    assert peaks["strict"] == 10
    assert_capacity_came_back(results["kill"])
    assert_printed(printed, results)


def assert_shape(results: dict[str, Any]) -> None:
    assert set(results["machine"]) == {"cpu", "cores", "kernel", "python", "backend", "commit", "date"}
    assert list(results["modes"]) == ["per-process", "approximate", "strict"]
    for name, figures in results["modes"].items():
        assert figures["admitted"] > 0, name
        assert figures["refused"] > 0, name
        assert figures["errors"] == 0, name
        assert 50 <= figures["admitted_p50_ms"] <= figures["admitted_p99_ms"], name
        assert 0 < figures["refused_p50_ms"] <= figures["refused_p99_ms"], name
    assert results["control"]["refused"] == 0


def assert_capacity_came_back(kill: dict[str, Any]) -> None:
    assert kill["peak_in_flight"] == kill["in_flight_before"] == kill["capacity_after"] == 10
    assert kill["held_by_killed"] >= 1
    assert kill["back_after_seconds"] > 0


def assert_printed(text: str, results: dict[str, Any]) -> None:
    peaks = [figures["peak_in_flight"] for figures in (results["control"], *results["modes"].values(), results["kill"])]
    assert re.search(r"peak in flight\s+" + r"\s+".join(map(str, peaks)), text)
    assert results["machine"]["date"] in text
    assert max(map(len, text.splitlines()[:-3])) <= 80, "the table fits a narrow terminal"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(number: signal.Signals) -> None:
    with started("bench", "overload", *SHORT) as process:
        eventually(lambda: len(descendants(process.pid)) >= 5, "uvicorn and four workers run")
        servers = descendants(process.pid)
        scratch = scratch_of(servers[0])
        assert scratch.is_dir()
        process.send_signal(number)
        output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert (output, errors.splitlines()[-1]) == ("", "bench overload: interrupted")
    assert not scratch.exists()
    assert not [pid for pid in servers if Path(f"/proc/{pid}").exists()]


def descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*children, *(grandchild for child in children for grandchild in descendants(child))]


def scratch_of(pid: int) -> Path:
    environ = dict(entry.split("=", 1) for entry in Path(f"/proc/{pid}/environ").read_text().split("\0") if entry)
    witness = Path(environ["OVERLOAD_WITNESS"])
    assert str(witness).startswith(f"{SCRATCH}overload-")
    return witness.parent


# --- where it cannot run ---------------------------------------------------------------------------------------------


def test_without_uvicorn(tmp_path: Path) -> None:
    Path(tmp_path, "uvicorn.py").write_text("raise ImportError('no such package')")
    assert_unusable(run("bench", "overload", env={"PYTHONPATH": str(tmp_path)}), "'uvicorn'", "bench")


def test_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert_unusable(called(capsys, "overload", "--port", str(port)), f"port {port} on 127.0.0.1", "in use")


@pytest.mark.parametrize("port", ["65536", "-1", "http", "1.5"])
def test_no_such_port(capsys: pytest.CaptureFixture[str], port: str) -> None:
    ended = called(capsys, "overload", f"--port={port}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"port is '{port}', allowed: 0 to 65535" in ended.stderr


@pytest.mark.parametrize("name", ["", "missing/file.json", "file/below.json", "fifo", "two\nlines/file.json"])
def test_json_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    before = sorted(os.listdir(tmp_path))
    assert_unusable(called(capsys, "overload", "--json", str(tmp_path / name)), "cannot write")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_server_that_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody took the port after it was looked at, and answers nobody."""
    monkeypatch.setattr("bench.clients.REQUEST_SECONDS", 1.0)
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with (
            Server("bench.apps.streaming:app", port, 2, {}, tmp_path / "log") as server,
            pytest.raises(Unusable, match=r"uvicorn ended by itself: .*[Aa]ddress already in use"),
        ):
            asyncio.run(gather_at(server))


async def gather_at(server: Server) -> None:
    async with Crowd(server, 2):
        pass


def test_a_kept_port_is_free_for_our_server_alone() -> None:
    with keep_port(0) as kept, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(kept.getsockname())


# --- what it insists on ----------------------------------------------------------------------------------------------

GOOD: dict[str, dict[str, Any]] = {
    "control": {"peak_in_flight": 80, "errors": 0},
    "per-process": {"peak_in_flight": 40, "errors": 0},
    "approximate": {"peak_in_flight": 13, "errors": 0, "error_causes": {"TimeoutError": 1}, "capacity_after": 10},
    "strict": {"peak_in_flight": 10, "errors": 0, "error_causes": {"TimeoutError": 1}, "capacity_after": 10},
    "kill": {
        "peak_in_flight": 10,
        "errors": 7,
        "capacity_after": 10,
        "held_by_killed": 3,
        "back_after_seconds": 0.1,
    },
}


def test_as_expected_nothing_is_missed() -> None:
    assert overload_report.missed(GOOD) == []


@pytest.mark.parametrize(
    ("run", "figure", "value", "line"),
    [
        ("control", "peak_in_flight", 40, "control: peak in flight is 40, expected more than 40"),
        ("per-process", "peak_in_flight", 20, "per-process: peak in flight is 20, expected more than 20"),
        ("approximate", "peak_in_flight", 14, "approximate: peak in flight is 14, expected 10 to 13"),
        ("strict", "peak_in_flight", 11, "strict: peak in flight is 11, expected exactly 10"),
        ("strict", "peak_in_flight", 9, "strict: peak in flight is 9, expected exactly 10"),
        ("strict", "errors", 1, "strict: 1 requests failed, expected none; most of them: TimeoutError"),
        ("kill", "peak_in_flight", 11, "kill: peak in flight is 11, expected exactly 10"),
        ("kill", "capacity_after", 7, "kill: 7 units can be reserved afterwards, expected exactly 10"),
        ("kill", "back_after_seconds", None, "kill: the 3 units of the killed worker did not come back"),
        (
            "kill",
            "held_by_killed",
            0,
            "kill: 10 were never in flight, so no worker was killed",
        ),
    ],
)
def test_a_figure_that_is_not_as_expected(run: str, figure: str, value: int | None, line: str) -> None:
    measured = copy.deepcopy(GOOD)
    measured[run][figure] = value
    assert overload_report.missed(measured) == [line]
