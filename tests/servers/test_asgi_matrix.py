"""The ASGI middleware on every server: however a request ends, its units come back, once.

Two workers and a limit of two, a limiter of our own which must find every unit free afterwards, and a witness that
knows nothing of hardcap. What an application has a part in runs on it bare, in Starlette and in FastAPI.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import hardcap
from tests.support.matrix import CELL, ENDINGS, SERVERS, Setup
from tests.support.oracle import assert_all_free
from tests.support.processes import DEADLINE, eventually, kill_group
from tests.support.servers import Server
from tests.support.streams import check_refusals, client_of

LIMIT = 2
WORKERS = 2
APPS = ("bare", "starlette", "fastapi")
UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {}\r\n".format(
    "MDEyMzQ1Njc4OWFiY2RlZg=="
)


class Site:
    """A server under test, and our own limiter on its segment."""

    def __init__(self, tested: Setup, server: Server, limiter: hardcap.Limiter) -> None:
        self.tested = tested
        self.server = server
        self.limiter = limiter

    def client(self) -> httpx.Client:
        return client_of(self.server, keeps=True)

    @contextlib.contextmanager
    def full(self, path: str) -> Iterator[list[Iterator[bytes]]]:
        """As many streams as the limit allows, begun; at the end their clients leave."""
        with contextlib.ExitStack() as stack:
            streams = []
            client = stack.enter_context(self.client())
            for _ in range(LIMIT):
                response = stack.enter_context(client.stream("GET", path))
                assert response.status_code == 200
                streams.append(response.iter_bytes())
                assert next(streams[-1]).startswith(b"chunk")
            assert self.is_full()
            yield streams

    @contextlib.contextmanager
    def sent(self, path: str, headers: str = "") -> Iterator[socket.socket]:
        """A request on a connection that leaves at the end, whatever was answered."""
        with socket.create_connection(self.server.address, DEADLINE) as connection:
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
    def inside(self) -> Counter[int]:
        """Requests inside the application by the process id of their worker, as the witness knows them."""
        workers = [int(file.split("-")[1]) for file in self.server.files("holder")]
        return Counter(pid for pid in workers if Path(f"/proc/{pid}/exe").exists())  # a dead one takes no file back

    def is_full(self) -> bool:
        return self.inside.total() == self.limiter.in_flight == LIMIT

    def all_back(self) -> None:
        def none_is_held() -> bool:
            self.limiter.reap()  # by now and again: a worker may be about to end
            return self.inside.total() == self.limiter.in_flight == 0

        eventually(none_is_held, "every unit is back")
        assert_all_free(self.limiter, LIMIT)


@contextlib.contextmanager
def opened(tested: Setup) -> Iterator[Site]:
    segments, witness = (Path(tempfile.mkdtemp(prefix="hardcap-test-", dir="/dev/shm")) for _ in range(2))
    env = {"HARDCAP_NAME": "matrix", "HARDCAP_DIR": os.fspath(segments), "HARDCAP_LIMIT": str(LIMIT)}
    try:
        with (
            hardcap.open("matrix", limit=LIMIT, directory=segments) as limiter,
            tested.start("tests.support.asgi_apps:app", witness, *tested.options, workers=WORKERS, env=env) as server,
        ):
            yield Site(tested, server, limiter)
    finally:
        shutil.rmtree(segments)
        shutil.rmtree(witness)


# --- ways to end -----------------------------------------------------------------------------------------------------


def on_each_app(way: Callable[[Site, str], None]) -> Callable[[Site], None]:
    @functools.wraps(way)
    def on_each(site: Site) -> None:
        for app in APPS:
            way(site, app)
            site.all_back()

    return on_each


@on_each_app
def answered(site: Site, app: str) -> None:
    with site.client() as client:
        assert [client.get(f"/{app}/").text for _ in range(2 * LIMIT)] == ["ok"] * (2 * LIMIT)


@on_each_app
def streamed(site: Site, app: str) -> None:
    with site.full(f"/{app}/hold") as streams, site.letting_go():
        assert all(b"".join(stream).endswith(b"end") for stream in streams)


@on_each_app
def refused(site: Site, app: str) -> None:
    with site.full(f"/{app}/hold"):
        check_refusals(site.server, f"/{app}/")
        assert site.is_full()


@on_each_app
def failed(site: Site, app: str) -> None:
    with site.client() as client:
        for _ in range(LIMIT + 1):
            assert client.get(f"/{app}/fail").status_code == 500
            with contextlib.suppress(httpx.TransportError):  # cut off, by whatever means
                assert client.get(f"/{app}/break").text == "chunk "


@on_each_app
def left_before(site: Site, app: str) -> None:
    with site.sent(f"/{app}/silent"), site.sent(f"/{app}/silent"):
        eventually(site.is_full, "both are in")


@on_each_app
def left_during(site: Site, app: str) -> None:
    with site.full(f"/{app}/hold"):
        pass


@on_each_app
def left_after(site: Site, app: str) -> None:
    for _ in range(LIMIT + 1):
        with site.sent(f"/{app}/") as connection:
            received = b""
            while b"ok" not in received:
                received += connection.recv(65536)


def left_waiting(site: Site) -> None:
    """Those that stay get what those that left would have got."""
    with site.full("/bare/hold") as streams, site.sent("/patient/") as staying:
        with site.sent("/patient/hold"), site.sent("/patient/hold"):
            assert not readable(staying)
        with site.letting_go():
            assert all(b"".join(stream).endswith(b"end") for stream in streams)
        assert site.status(staying) == 200
    eventually(lambda: not site.inside, "nobody is inside")


def websocket(site: Site) -> None:
    with site.sent("/socket/", UPGRADE) as one, site.sent("/socket/", UPGRADE) as other:
        assert [site.status(connection) for connection in (one, other)] == [101, 101]
        eventually(site.is_full, "both are in")
        with site.sent("/socket/", UPGRADE) as refused:
            assert site.status(refused) == site.tested.denies


def reloaded(site: Site) -> None:
    before = site.server.started
    with site.full("/bare/hold"):
        site.server.signal(signal.SIGHUP)
        if not site.tested.waits:
            site.server.wait_for_more(before, WORKERS)
    site.server.wait_for_more(before, WORKERS)
    serves_again(site)


def killed(site: Site) -> None:
    before = site.server.started
    with site.full("/bare/hold"):
        ((worker, held),) = site.inside.most_common(1)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: site.limiter.reap() > 0 or site.limiter.in_flight == LIMIT - held, "its units are back")
    if site.tested.replaces:
        site.server.wait_for_more(before, 1)
        serves_again(site)
    else:
        site.server.process.wait(DEADLINE)
        kill_group(site.server.process)


def serves_again(site: Site) -> None:
    with site.client() as client:
        eventually(lambda: client.get("/bare/").status_code == 200, "it serves")


def shut_down(site: Site) -> None:
    with site.full("/bare/hold"):
        site.server.signal(signal.SIGTERM)
        if not site.tested.waits:
            site.server.process.wait(DEADLINE)
    assert site.server.process.wait(DEADLINE) in (0, -signal.SIGTERM)
    kill_group(site.server.process)


def readable(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        connection.settimeout(DEADLINE)


WAYS: dict[str, Callable[[Site], None]] = {
    way.__name__: way
    for way in (
        *(answered, streamed, refused, failed, left_before, left_during, left_after, left_waiting, websocket),
        *(killed, reloaded, shut_down),  # last: after some of them there is no server
    )
}

# --- on each server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SERVERS)
def first(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(SERVERS[request.param]) as site:
        yield site


@pytest.fixture
def site(first: Site) -> Iterator[Site]:
    """The same for all endings, but for those after one that has ended the server."""
    if first.server.process.poll() is None:
        yield first
    else:
        with opened(first.tested) as another:
            yield another


@pytest.mark.parametrize("ending", ENDINGS)
def test_b03_b22_b28_b44_every_unit_comes_back(
    site: Site, ending: str, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    WAYS[ending](site)
    site.all_back()
    assert "never retrieved" not in site.server.log
    record_property(CELL, [ending, request.node.callspec.params["first"]])
