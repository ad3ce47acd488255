"""``python -m bench suggest`` on real services whose capacity is known: what it proposes, and when it does not."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.server import HOST, keep_port
from tests.support.commands import called, complaints, interrupted, run, started
from tests.support.forms import long_form
from tests.support.processes import eventually
from tests.support.servers import Server, uvicorn
from tests.support.streams import client_of

ATTEMPTS = 6


@dataclass(frozen=True)
class Ended:
    status: int
    output: str
    complaint: str
    results: dict[str, Any]

    @property
    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = self.results["verdict"]
        return found

    @property
    def levels(self) -> list[int]:
        return [step["in_flight"] for step in self.results["steps"]]


@contextlib.contextmanager
def service(witness: Path, **settings: float | str) -> Iterator[Server]:
    env = {key.upper(): str(value) for key, value in settings.items()}
    with uvicorn("tests.support.known_service:app", witness, env=env) as server:
        yield server


def suggest(url: str, file: Path, *options: str) -> Ended:
    return read(run("bench", "suggest", "--url", url, "--json", str(file), *options), file)


def read(done: subprocess.CompletedProcess[str], file: Path) -> Ended:
    results = json.loads(file.read_text()) if file.exists() else {}
    return Ended(done.returncode, done.stdout, complaints(done.stderr), results)


def measured(server: Server, *options: str, unsure: str = "not sure, ") -> Ended:
    """What came out. Once more where it says itself that others kept this machine too busy, which is no fault."""
    for _ in range(ATTEMPTS):
        found = suggest(server.url, server.witness / "suggest.json", *options)
        if unsure not in found.complaint:  # noise, or too few answers
            break
    return found


def highest(server: Server) -> int:
    """The most requests that were ever present."""
    with client_of(server) as client:
        return int(client.get("/peak").text)


# --- a limit is proposed ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # of all attempts
def test_it_proposes_the_capacity(tmp_path: Path) -> None:
    with service(tmp_path, capacity=8, work=0.1) as server:
        ended = measured(server, "--most", "16", "--seconds", "16", unsure="not sure")  # also: throughput still rises
        peak = highest(server)
    verdict = ended.verdict
    assert (ended.status, ended.complaint) == (0, "")
    assert 6 <= verdict["limit"] <= 12
    assert verdict["low"] <= verdict["limit"] <= verdict["high"]
    assert 4 <= verdict["served_at_once"] <= 12
    assert peak <= 16
    check_printed(ended)


def check_printed(ended: Ended) -> None:
    assert ended.levels == sorted({1, 2, 4, 8, 16} | set(ended.levels))
    for step in ended.results["steps"]:
        assert re.search(rf"^ *{step['in_flight']} in flight .*█", ended.output, re.MULTILINE)
        assert 0 < step["p50_ms"] <= step["p99_ms"]
    assert f"proposed limit: {ended.verdict['limit']} (" in ended.output
    assert f"HARDCAP_LIMIT={ended.verdict['limit']}" in ended.output
    assert ended.results["machine"]["date"] in ended.output


@long_form
@pytest.mark.timeout(300)
def test_errors_far_above_the_knee_leave_a_doubt(tmp_path: Path) -> None:
    with service(tmp_path, capacity=2, trouble=12) as server:
        ended = measured(server, "--most", "64", "--seconds", "30")
    assert ended.status == 0, ended.complaint
    assert 2 <= ended.verdict["limit"] <= 4
    assert not ended.verdict["sure"]
    assert "but: service errors: " in ended.output
    assert ended.levels == [1, 2, 4, 8, 16], "it does not go on where the service errs"


# --- none is ---------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_without_a_knee_it_is_not_sure(tmp_path: Path) -> None:
    with service(tmp_path, work=0.06) as server:
        ended = measured(server, "--most", "4", "--seconds", "5")
    assert (ended.status, ended.verdict["limit"]) == (1, None)
    assert ended.complaint == "bench suggest: not sure: throughput still rises at 4 in flight, the most allowed"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (500, "service errors: .* most of them: status 500"),
        pytest.param(302, "service errors: .* most of them: status 302", marks=long_form),
        (503, "the service refuses .*: it already has a limit"),
        pytest.param(429, "the service refuses .*: it already has a limit", marks=long_form),
    ],
)
def test_a_service_in_trouble_is_left_alone(tmp_path: Path, status: int, told: str) -> None:
    with service(tmp_path, trouble=3, status=status) as server:
        ended = measured(server, "--most", "64", "--seconds", "20")
        peak = highest(server)
    assert (ended.status, ended.verdict["limit"]) == (1, None)
    assert re.match(f"bench suggest: {told}", ended.complaint)
    assert max(ended.levels) == 4
    assert 3 <= peak <= 4


def test_too_few_answers(tmp_path: Path) -> None:
    with service(tmp_path, work=0.5) as server:
        ended = suggest(server.url, tmp_path / "suggest.json", "--most", "8", "--seconds", "8")
    assert ended.status == 1
    assert "too few answers: " in ended.complaint


# --- what it asks ----------------------------------------------------------------------------------------------------


def test_it_posts_what_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "body").write_text("prompt")
    told = ("--post", str(tmp_path / "body"), "--header", "x-key: prompt")
    with service(tmp_path, expected="prompt", work=0.02) as server:
        asked = suggest(server.url, tmp_path / "suggest.json", *told, "--most", "2", "--seconds", "2")
        without = suggest(server.url, tmp_path / "suggest.json", *told[:2], "--most", "2", "--seconds", "2")
    assert all(step["served"] > 0 and step["failed"] == 0 for step in asked.results["steps"])
    assert "status 400" not in asked.complaint
    assert "status 400" in without.complaint


# --- where it cannot run ---------------------------------------------------------------------------------------------


def assert_unusable(done: subprocess.CompletedProcess[str], told: str) -> None:
    """Exit status 2 and one line."""
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"bench suggest: .*{re.escape(told)}.*", complaints(done.stderr))


def test_nobody_answers(tmp_path: Path) -> None:
    file = tmp_path / "absent.json"
    with service(tmp_path, work=60) as server:
        done = run("bench", "suggest", "--url", server.url, "--json", str(file), "--timeout", "0.5")
    assert_unusable(done, "no answer within 0.5 s")
    assert not file.exists()


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with keep_port(0) as keeper:
        url = f"http://{HOST}:{keeper.getsockname()[1]}/"
        assert_unusable(called(capsys, "suggest", "--url", url), "cannot reach 'http://")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://192.0.2.1/", "'192.0.2.1' is at 192.0.2.1, allowed: loopback"),
        ("ftp://127.0.0.1/", "URL is 'ftp://127.0.0.1/', allowed: http://HOST"),
    ],
)
def test_a_url_that_is_not_to_be_asked(capsys: pytest.CaptureFixture[str], url: str, told: str) -> None:
    assert_unusable(called(capsys, "suggest", "--url", url), told)


def test_ended_by_a_signal(tmp_path: Path) -> None:
    with service(tmp_path) as server, started("bench", "suggest", "--url", server.url) as process:
        eventually(lambda: highest(server) > 0, "it asks")
        assert interrupted(process) == (130, "bench suggest: interrupted")
