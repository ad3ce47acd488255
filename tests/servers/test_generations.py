"""Generations of workers that overlap under gunicorn: one cap over all of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx

import hardcap
from tests.servers.conftest import Env
from tests.support.forms import FULL
from tests.support.processes import eventually
from tests.support.servers import Server, gunicorn
from tests.support.streams import Streams, client_of

APP = "tests.support.held_wsgi:app"
THREADED = ["--worker-class", "gthread", "--threads", "4", "--graceful-timeout", "60"]
RETRY = 1.0  # seconds between two attempts to attach
RELOADS = 3 if FULL else 1


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def next_generation(server: Server, arbiter: int, number: int) -> set[int]:
    """Signal an arbiter, and wait for the workers that come of it."""
    before = server.started
    os.kill(arbiter, number)
    return server.wait_for_more(before, server.workers)


def wait_until_gone(workers: set[int]) -> None:
    eventually(lambda: not any(map(alive, workers)), "the old generation has left")


def wait_until_refused(client: httpx.Client, workers: set[int]) -> None:
    eventually(lambda: refused_by(client, workers), "the new ones refuse")


def test_b33_without_slots_for_two_generations_the_new_one_says_so_and_waits(
    env: Env, name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """Reloads in a row, each under streams of the generation before, with exactly as many slots as workers."""
    with gunicorn(APP, tmp_path, *THREADED, workers=2, env=env(2) | {"HARDCAP_MAX_PROCESSES": "2"}) as server:
        current = server.started
        for _ in range(RELOADS):
            with Streams(server) as streams, client_of(server) as client:
                streams.hold_one_of_each(current)
                new = next_generation(server, server.process.pid, signal.SIGHUP)
                wait_until_refused(client, new)
                assert "slot table full, 2 live" in server.log
                time.sleep(RETRY)
                assert refused_by(client, new) and client.get("/health").status_code == 200
                assert server.holders == 2 and server.started >= new and all(map(alive, new))
                assert hardcap.inspect(name, segment_dir).resources[0].in_flight == 2
                server.let_go()
                assert all(streams.end(worker).endswith(b"end") for worker in current)
            wait_until_gone(current)
            server.hold()
            current = new
        assert len(server.started) == 2 * (1 + RELOADS)
        with Streams(server) as streams:
            streams.hold_one_of_each(current)
            assert {process.pid for process in hardcap.inspect(name, segment_dir).processes} == current
            server.let_go()


def refused_by(client: httpx.Client, workers: set[int]) -> bool:
    """Whether a new request meets one of these workers, and it cannot count it."""
    answer = client.get("/")
    assert answer.status_code == 503
    return bool(answer.json()["error"]["type"] == "unavailable") and int(answer.headers["x-worker"]) in workers


def test_b33_four_generations_under_one_cap(env: Env, name: str, segment_dir: Path, tmp_path: Path) -> None:
    """Each holds a stream: one is reloaded, started again as a new program (USR2), and both are reloaded once more."""
    with gunicorn(APP, tmp_path, *THREADED, env=env(4)) as server, Streams(server) as streams:
        old = server.process.pid
        generations = [server.started]
        streams.hold_one_of_each(generations[-1])
        generations.append(next_generation(server, old, signal.SIGUSR2))
        streams.hold_one_of_each(generations[-1])
        new = parent(*generations[-1])
        for arbiter in (old, new):
            generations.append(next_generation(server, arbiter, signal.SIGHUP))
            streams.hold_one_of_each(generations[-1])
        everybody = set[int]().union(*generations)
        assert len(everybody) == server.holders == 4
        processes = hardcap.inspect(name, segment_dir).processes
        assert {process.pid: process.held for process in processes} == dict.fromkeys(everybody, 1)
        with client_of(server) as client:
            assert {client.get("/").status_code for _ in range(10)} == {503}
        server.let_go()
        assert all(streams.end(worker).endswith(b"end") for worker in everybody)
        eventually(lambda: sum(map(alive, everybody)) == 2, "the first generation of each has left")
        with client_of(server) as client:
            assert server.stop() == 0
            assert {int(client.get("/").headers["x-worker"]) for _ in range(5)} == generations[3]
        eventually(lambda: hardcap.inspect(name, segment_dir).resources[0].in_flight == 0, "all units are back")
