"""A counter in Redis or Valkey, looked at and changed by a Lua script, on a server of our own behind a Unix socket."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import redis

from bench.baselines import Attach, Context, Gate
from bench.results import Unusable

SERVERS: Final = ("valkey-server", "redis-server")
NAME: Final = "Redis"
START_SECONDS: Final = 10.0
STOP_SECONDS: Final = 5.0

RESERVE: Final = """
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then return 0 end
return redis.call('INCR', KEYS[1])
"""
RELEASE: Final = "return redis.call('DECR', KEYS[1])"


@dataclass(frozen=True)
class RedisCounter:
    """A unit is lost for ever when its holder dies. Its processor time is the client's alone."""

    socket: str
    name: str = f"{NAME}, Lua script"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return partial(_attach, self.socket, f"counter-{next(_numbers)}", limit)


@contextmanager
def served() -> Iterator[RedisCounter | None]:
    """A counter on a server that ends with the block; None where none is installed, ``Unusable`` if it fails."""
    binary = next(filter(None, map(shutil.which, SERVERS)), None)
    if binary is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="hardcap-redis-") as directory:
        socket = str(Path(directory, "socket"))  # and no port
        options = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", directory]
        server = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with server:
            try:
                _wait_for(server, binary, socket)
                yield RedisCounter(socket)
            finally:
                _stop(server)


def _wait_for(server: subprocess.Popen[bytes], binary: str, socket: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    with closing(redis.Redis(unix_socket_path=socket)) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.01)
            else:
                return
    raise Unusable(f"'{binary}' does not answer, exit status {server.poll()}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


_numbers: Final = itertools.count()


def _attach(socket: str, key: str, limit: int, _index: int) -> Gate:
    client = redis.Redis(unix_socket_path=socket)
    take, give = client.register_script(RESERVE), client.register_script(RELEASE)

    def reserve() -> bool:
        return bool(take([key], [limit]))

    def release() -> object:
        return give([key])

    return Gate(reserve, release, client.close)
