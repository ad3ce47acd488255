"""The ASGI middleware on every server: however a request ends, its units come back, once.

Each ending runs on the application bare, in Starlette and in FastAPI, on two workers with a limit of two, beside a
limiter of our own which must find every unit free afterwards, and a witness that knows nothing of hardcap.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import hardcap
from tests.support.matrix import ENDINGS, SERVERS, Setup
from tests.support.oracle import assert_all_free
from tests.support.processes import DEADLINE, eventually
from tests.support.servers import Server

LIMIT = 2
WORKERS = 2
APPS = ("bare", "starlette", "fastapi")
UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {}\r\n".format(
    "MDEyMzQ1Njc4OWFiY2RlZg=="
)
LIFE = ("killed", "reloaded", "shut_down")  # of workers: on a server of their own


class Site:
    """A server under test, and our own limiter on its segment."""

    def __init__(self, tested: Setup, server: Server, limiter: hardcap.Limiter) -> None:
        self.tested = tested
        self.server = server
        self.limiter = limiter
        address = urlsplit(server.url)
        self.address = (address.hostname, address.port)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.server.url, timeout=DEADLINE, trust_env=False)

    @contextlib.contextmanager
    def full(self, path: str) -> Iterator[list[Iterator[bytes]]]:
        """As many streams as the limit allows, begun; at the end their clients leave."""
        with contextlib.ExitStack() as stack:
            streams = []
            for _ in range(LIMIT):
                response = stack.enter_context(stack.enter_context(self.client()).stream("GET", path))
                assert response.status_code == 200
                streams.append(response.iter_bytes())
                assert next(streams[-1]).startswith(b"chunk")
            assert self.server.holders == self.limiter.in_flight == LIMIT
            yield streams

    @contextlib.contextmanager
    def sent(self, path: str, headers: str = "") -> Iterator[socket.socket]:
        """A request on a connection that leaves at the end, whatever was answered."""
        with socket.create_connection(self.address, DEADLINE) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n".encode())
            yield connection

    def status(self, connection: socket.socket) -> int:
        return int(connection.recv(65536).split()[1])

    @contextlib.contextmanager
    def letting_go(self) -> Iterator[None]:
        self.server.let_go()
        yield
        self.server.hold()

    @property
    def inside(self) -> int:
        """Requests inside the application, by the witness, but those of dead workers."""
        files = self.server.files("holder")
        return len([file for file in files if Path("/proc", file.split("-")[1], "exe").exists()])  # not of a zombie

    def all_back(self) -> None:
        def none_is_held() -> bool:
            self.limiter.reap()  # by now and again: a worker may be about to end
            return self.inside == self.limiter.in_flight == 0

        eventually(none_is_held, "every unit is back")
        assert_all_free(self.limiter, LIMIT)


@contextlib.contextmanager
def opened(tested: Setup, app: str) -> Iterator[Site]:
    segments, witness = (Path(tempfile.mkdtemp(prefix="hardcap-test-", dir="/dev/shm")) for _ in range(2))
    env = {"HARDCAP_NAME": "matrix", "HARDCAP_DIR": os.fspath(segments), "HARDCAP_LIMIT": str(LIMIT)}
    try:
        with (
            hardcap.open("matrix", limit=LIMIT, directory=segments) as limiter,
            tested.start(app, witness, *tested.options, workers=WORKERS, env=env) as server,
        ):
            yield Site(tested, server, limiter)
    finally:
        shutil.rmtree(segments)
        shutil.rmtree(witness)


# --- ways to end -----------------------------------------------------------------------------------------------------


def answered(site: Site, app: str) -> None:
    with site.client() as client:
        assert [client.get(f"/{app}/").text for _ in range(2 * LIMIT)] == ["ok"] * (2 * LIMIT)


def streamed(site: Site, app: str) -> None:
    with site.full(f"/{app}/hold") as streams, site.letting_go():
        assert all(b"".join(stream).endswith(b"end") for stream in streams)


def refused(site: Site, app: str) -> None:
    """On one kept connection, which stays in step; whoever sends a body that nobody reads may lose his."""
    with site.full(f"/{app}/hold"), site.client() as client:
        for _ in range(2):
            whole = client.get(f"/{app}/")
            assert (whole.status_code, whole.headers["retry-after"]) == (503, "1")
            assert int(whole.headers["content-length"]) == len(whole.content)
            head = client.head(f"/{app}/")
            assert (head.status_code, head.content) == (503, b"")
            with site.client() as sending:
                assert sending.post(f"/{app}/", content=bytes(100_000)).content == whole.content
        assert client.get(f"/{app}/health").status_code != 503
        assert site.server.holders == site.limiter.in_flight == LIMIT


def failed(site: Site, app: str) -> None:
    with site.client() as client:
        for _ in range(LIMIT + 1):
            assert client.get(f"/{app}/fail").status_code == 500
            with contextlib.suppress(httpx.TransportError):  # cut off, by whatever means
                assert client.get(f"/{app}/break").text == "chunk "


def left_before(site: Site, app: str) -> None:
    with site.sent(f"/{app}/silent"), site.sent(f"/{app}/silent"):
        eventually(lambda: site.server.holders == site.limiter.in_flight == LIMIT, "both are in")


def left_during(site: Site, app: str) -> None:
    with site.full(f"/{app}/hold"):
        pass


def left_after(site: Site, app: str) -> None:
    for _ in range(LIMIT + 1):
        with site.sent(f"/{app}/") as connection:
            received = b""
            while b"ok" not in received:
                received += connection.recv(65536)


def left_waiting(site: Site, app: str) -> None:
    """Those that stay get what those that left would have got."""
    with site.full(f"/{app}/hold") as streams, site.sent("/patient/") as staying:
        with site.sent("/patient/hold"), site.sent("/patient/hold"):
            assert not readable(staying)
        with site.letting_go():
            assert all(b"".join(stream).endswith(b"end") for stream in streams)
        assert site.status(staying) == 200
    eventually(lambda: site.server.holders == 0, "nobody is inside")


def websocket(site: Site, app: str) -> None:
    with site.sent("/socket/", UPGRADE) as one, site.sent("/socket/", UPGRADE) as other:
        assert [site.status(connection) for connection in (one, other)] == [101, 101]
        eventually(lambda: site.server.holders == site.limiter.in_flight == LIMIT, "both are in")
        with site.sent("/socket/", UPGRADE) as refused:
            assert site.status(refused) == site.tested.denies


def killed(site: Site, app: str) -> None:
    with site.full("/hold"):
        worker = int(site.server.files("holder")[0].split("-")[1])
        held = len([file for file in site.server.files("holder") if f"-{worker}-" in file])
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: site.limiter.reap() > 0 or site.limiter.in_flight == LIMIT - held, "its units are back")
    if site.tested.replaces:
        eventually(lambda: len(site.server.started) > WORKERS, "another worker has started")
        with site.client() as client:
            eventually(lambda: client.get("/").status_code == 200, "it serves")
    else:
        site.server.process.wait(DEADLINE)


def reloaded(site: Site, app: str) -> None:
    before = site.server.started
    with site.full("/hold"):
        site.server.signal(signal.SIGHUP)
        eventually(lambda: len(site.server.started - before) == WORKERS, "other workers have started")
    with site.client() as client:
        eventually(lambda: client.get("/").status_code == 200, "they serve")


def shut_down(site: Site, app: str) -> None:
    with site.full("/hold"):
        assert site.server.stop() in (0, -signal.SIGTERM)


def readable(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        connection.settimeout(DEADLINE)


WAYS: dict[str, Callable[[Site, str], None]] = {
    way.__name__: way
    for way in (
        *(answered, streamed, refused, failed, left_before, left_during, left_after, left_waiting),
        *(websocket, killed, reloaded, shut_down),
    )
}

# --- on each server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SERVERS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(SERVERS[request.param], "tests.support.asgi_apps:app") as site:
        yield site
        assert "never retrieved" not in site.server.log


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending not in LIFE])
def test_b03_b22_b28_b44_every_unit_comes_back(site: Site, ending: str) -> None:
    for app in APPS:
        WAYS[ending](site, app)
        site.all_back()


@pytest.mark.parametrize("ending", LIFE)
@pytest.mark.parametrize("server", SERVERS)
def test_b33_b34_whatever_becomes_of_the_workers(server: str, ending: str) -> None:
    with opened(SERVERS[server], "tests.support.held_app:app") as site:
        WAYS[ending](site, "bare")
        site.all_back()


def test_a_unit_that_is_kept_is_seen(site: Site) -> None:
    with site.limiter.admit(), pytest.raises(AssertionError):
        assert_all_free(site.limiter, LIMIT)
