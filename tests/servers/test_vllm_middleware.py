"""The middleware by its import path, the environment as its only configuration, as vLLM loads it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import Server, spawned
from tests.support.streams import Holders

MIDDLEWARE = "hardcap.asgi.HardcapMiddleware"
WORKERS = 3
LIMIT = 4


def holders_of(server: Server, pids: set[str]) -> int:
    """Requests inside the application in these workers, by the witness: a killed one cannot take its files back."""
    return sum(name.split("-")[1] in pids for name in server.files("holder"))


def test_spawned_workers_on_one_socket_share_the_cap(env: Env, in_flight: Callable[[], int], tmp_path: Path) -> None:
    """One of them is killed while it holds: its units, and no other's, are to be had again."""

    async def fill(server: Server) -> None:
        async with Holders.of(server) as holders:
            while len(set(holders.refused)) < WORKERS:  # each has said no by itself
                await holders.add(2 * LIMIT)
            assert len(holders.admitted) == server.holders == in_flight() == LIMIT
            victim = holders.admitted[0]
            os.kill(int(victim), signal.SIGKILL)
            living = {str(pid) for pid in server.started} - {victim}
            held, before = holders_of(server, living), len(holders.admitted)
            while len(holders.admitted) - before < LIMIT - held:
                await holders.add(LIMIT)
            assert holders_of(server, living) == in_flight() == LIMIT

    with spawned(MIDDLEWARE, witness=tmp_path, workers=WORKERS, env=env(LIMIT)) as server:
        asyncio.run(asyncio.wait_for(fill(server), 60))
        eventually(lambda: in_flight() == 0, "clients gone, units back")
        assert server.stop() == 0
        assert "Traceback" not in server.log


def test_without_it_each_worker_lets_in_what_comes(tmp_path: Path) -> None:
    """So the witness sees what the cap prevents."""

    async def fill(server: Server) -> None:
        async with Holders.of(server) as holders:
            await holders.add(2 * LIMIT)
            assert server.holders == 2 * LIMIT

    with spawned(witness=tmp_path, workers=WORKERS) as server:
        asyncio.run(asyncio.wait_for(fill(server), 60))
