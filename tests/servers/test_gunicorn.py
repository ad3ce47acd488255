"""Real gunicorn, with workers of several kinds: preloading, deaths, reloads and timeouts never move the cap."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest

import hardcap
from tests.support.oracle import assert_all_free
from tests.support.processes import eventually
from tests.support.servers import Gunicorn, gunicorn

PRELOADED = {
    "gthread": ("tests.support.preloaded:wsgi", "gthread", "--preload", "--threads", "16"),
    "uvicorn": ("tests.support.preloaded:asgi", "uvicorn_worker.UvicornWorker", "--preload"),
}
UNLOADED = ("tests.support.held_app:app", "uvicorn_worker.UvicornWorker")
WORKERS = 4


@pytest.fixture
def env(name: str, segment_dir: Path) -> dict[str, str]:
    return {"HARDCAP_NAME": name, "HARDCAP_DIR": os.fspath(segment_dir)}


class Clients:
    """Requests that are held open, each on a connection of its own."""

    def __init__(self, server: Gunicorn) -> None:
        self._server = server
        self._stack = contextlib.ExitStack()
        self._client = httpx.Client(base_url=server.url, timeout=60, trust_env=False)

    def hold(self) -> int:
        """Send one more; the status that it gets. An admitted one goes on."""
        response = self._stack.enter_context(self._client.stream("GET", "/hold"))
        return response.status_code

    @property
    def holders(self) -> Counter[int]:
        """Requests inside the application, by worker: files that the dead leave behind count for them."""
        return Counter(int(name.split("-")[1]) for name in self._server.files("holder"))

    def hold_in_all(self) -> Counter[int]:
        """Until every worker has one."""
        while len(self.holders) < WORKERS:
            assert self.hold() == 200
        return self.holders

    def close(self) -> None:
        self._stack.close()
        self._client.close()


@contextlib.contextmanager
def clients_of(server: Gunicorn) -> Iterator[Clients]:
    with contextlib.closing(Clients(server)) as clients:
        yield clients


def held(snapshot: hardcap.Snapshot) -> dict[int, int]:
    """What each attached process holds, nothing apart."""
    return {process.pid: process.held for process in snapshot.processes if process.held}


@pytest.mark.parametrize("kind", PRELOADED)
def test_preloaded_workers_have_slots_of_their_own(
    kind: str, env: dict[str, str], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """B07, B15: the limiter is made, and used, in the master. Live workers are never reaped, a killed one is."""
    app, worker, *options = PRELOADED[kind]
    env |= {"HARDCAP_LIMIT": "64"}
    with (
        gunicorn(app, worker, tmp_path, *options, workers=WORKERS, env=env) as server,
        clients_of(server) as clients,
        hardcap.open(name, directory=segment_dir) as observer,
    ):
        holders = clients.hold_in_all()
        assert observer.reap() == 0
        assert held(observer.snapshot()) == holders
        assert server.process.pid in {process.pid for process in observer.snapshot().processes}, "idle"
        assert server.process.pid not in holders
        assert len(os.listdir(f"/proc/{server.process.pid}/task")) == 1
        victim, _ = holders.popitem()
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: observer.reap() == 1, "the killed one is recovered")
        assert held(observer.snapshot()) == holders
        assert observer.in_flight == holders.total()
        eventually(lambda: len(server.booted) == WORKERS + 1, "another one takes its place")
        assert "multi-threaded" not in server.log


@pytest.mark.parametrize("kind", PRELOADED)
@pytest.mark.parametrize("stopped", [False, True], ids=["arbiter runs", "arbiter stopped"])
def test_workers_alone_notice_a_death(
    kind: str, stopped: bool, env: dict[str, str], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """B15, B10: by refusals in the other workers, and also while the arbiter is stopped and leaves a zombie."""
    app, worker, *options = PRELOADED[kind]
    env |= {"HARDCAP_LIMIT": "4"}
    with (
        gunicorn(app, worker, tmp_path, *options, workers=WORKERS, env=env) as server,
        clients_of(server) as clients,
    ):
        while clients.hold() == 200:
            pass
        assert held(hardcap.inspect(name, segment_dir)) == clients.holders
        assert clients.holders.total() == 4
        victim, units = clients.holders.most_common()[0]
        if stopped:
            server.process.send_signal(signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        for _ in range(units):
            eventually(lambda: clients.hold() == 200, "what the killed one held is to be had")
        if stopped:
            assert Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
            server.process.send_signal(signal.SIGCONT)
        assert clients.hold() == 503
        assert sum(held(hardcap.inspect(name, segment_dir)).values()) == 4


def wait_for_startups(server: Gunicorn, count: int) -> None:
    eventually(lambda: len(server.files("startup")) == count, f"{count} have started")


def wait_for_shutdowns(server: Gunicorn, count: int) -> None:
    eventually(lambda: server.log.count("Shutting down") == count, f"{count} accept no more")


def reload_by_hup(server: Gunicorn) -> None:
    server.process.send_signal(signal.SIGHUP)


def reload_by_usr2(server: Gunicorn) -> None:
    """A new arbiter on the same socket; the one before ends when its workers do."""
    before = server.arbiters
    os.kill(before[-1], signal.SIGUSR2)
    eventually(lambda: len(server.arbiters) > len(before), "the next arbiter listens")
    os.kill(before[-1], signal.SIGTERM)


@pytest.mark.parametrize(
    ("reload", "times", "patience"),
    [(reload_by_hup, 3, "1"), (reload_by_usr2, 1, "60")],  # after which the arbiter goes on, or kills its workers
)
def test_generations_share_the_cap(
    reload: Callable[[Gunicorn], None], times: int, patience: str, env: dict[str, str], name: str, segment_dir: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    """B33: reloads in a row, while streams of each generation before go on."""
    env |= {"HARDCAP_LIMIT": str(times + 1), "HARDCAP_MAX_PROCESSES": "16"}
    options = ("--timeout", "120", "--graceful-timeout", patience)
    with gunicorn(*UNLOADED, tmp_path, *options, workers=2, env=env) as server, clients_of(server) as clients:
        for generation in range(times + 1):
            wait_for_startups(server, 2 * (generation + 1))
            assert clients.hold() == 200
            if generation < times:
                reload(server)
                wait_for_shutdowns(server, 2 * (generation + 1))
        assert len(clients.holders) == times + 1, "a stream in each generation"
        assert clients.hold() == 503
        assert hardcap.inspect(name, segment_dir).resources[0].in_flight == times + 1
        server.let_go()
        eventually(lambda: not clients.holders, "the streams have ended")
        server.hold()
        for _ in range(times + 1):
            eventually(lambda: clients.hold() == 200, "the last generation has it all")
        assert clients.hold() == 503


def test_a_generation_without_slots_is_refused_and_stays(
    env: dict[str, str], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """B33: as many slots as workers. Those of the next generation say so, serve nothing uncapped, and do not die."""
    env |= {"HARDCAP_LIMIT": "9", "HARDCAP_MAX_PROCESSES": "2"}
    options = ("--timeout", "120")
    with gunicorn(*UNLOADED, tmp_path, *options, workers=2, env=env) as server, clients_of(server) as clients:
        wait_for_startups(server, 2)
        while len(clients.holders) < 2:
            assert clients.hold() == 200
        before = clients.holders
        reload_by_hup(server)
        wait_for_shutdowns(server, 2)
        for _ in range(6):
            assert clients.hold() == 503
        assert "slot table full, 2 live" in server.log
        assert clients.holders == before
        assert len(server.booted) == 4, "none has died of it"
        server.let_go()
        eventually(lambda: not clients.holders, "the streams have ended")
        server.hold()
        eventually(lambda: clients.hold() == 200, "there is room for the new ones")
        assert len(server.booted) == 4


TIMEOUTS = {
    "sync, sleeping": ("wsgi", "sync", "/sleep"),
    "sync, keeping the GIL": ("wsgi", "sync", "/keep-the-gil"),
    "gthread, keeping the GIL": ("wsgi", "gthread", "/keep-the-gil"),
    "uvicorn, holding up its loop": ("asgi", "uvicorn_worker.UvicornWorker", "/sleep"),
    "uvicorn, keeping the GIL": ("asgi", "uvicorn_worker.UvicornWorker", "/keep-the-gil"),
}


def get(url: str) -> None:
    """A request whose worker may be killed."""
    with contextlib.suppress(httpx.TransportError):
        httpx.get(url, timeout=60, trust_env=False)


@pytest.mark.parametrize("what", TIMEOUTS)
def test_a_timeout_gives_back_once(
    what: str, env: dict[str, str], name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """B34: SIGABRT, whose SystemExit may run the release, then SIGKILL: neither leaked nor given back twice."""
    app, worker, path = TIMEOUTS[what]
    env |= {"HARDCAP_LIMIT": "8"}
    app = f"tests.support.preloaded:{app}"
    with (
        gunicorn(app, worker, tmp_path, "--timeout", "2", workers=2, env=env) as server,
        hardcap.open(name, limit=8, directory=segment_dir) as observer,
        ThreadPoolExecutor() as pool,
    ):
        for round_ in (1, 2):
            requests = [pool.submit(get, server.url + path) for _ in range(2)]
            eventually(lambda: observer.in_flight > 0, "a request hangs")
            wait(requests)
            assert server.log.count("WORKER TIMEOUT") >= round_
            eventually(lambda: (observer.reap(), observer.in_flight)[1] == 0, "nothing is left in flight")
            assert_all_free(observer, 8)
