"""The runs behind ``python -m bench http``: direct calls, then real servers that take turns under the same load."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import http_direct, loops, machine, processes, stage
from bench.baselines import Hardcap
from bench.clients import Crowd, Tally
from bench.http import Plan
from bench.http_outcome import Http, Load
from bench.lines import Line
from bench.rounds import Step, rotated
from bench.server import Server, keep_port

APP: Final = "bench.apps.burning:app"
WORKERS: Final = 2
CLIENTS: Final = 16  # enough to keep both workers busy
ROOM: Final = 1000  # a limit that nobody reaches
LIMIT: Final = 8
OVERLOAD: Final = 10  # clients for each unit of the limit
WAIT: Final = 0.1  # seconds for which a request is in flight without using a processor, where the limit is reached
ASK_AGAIN: Final = (0.004, 0.01)  # seconds from a refusal to the next try


@dataclass(frozen=True)
class Side:
    """One server and the load on it. Those with the same ``server`` share one, under different loads."""

    name: str
    server: str
    admission: str
    clients: int
    limit: int = ROOM
    wait: float = 0.0

    def environ(self, mode: Hardcap) -> dict[str, str]:
        """What configures the application and hardcap in every worker."""
        shared = {"HARDCAP_NAME": f"bench-{self.server}", "HARDCAP_LIMIT": str(self.limit), "HARDCAP_MODE": mode.mode}
        shared |= {"HARDCAP_DIR": mode.directory, "HARDCAP_BACKEND": mode.backend}
        own = {"BURNING_ADMISSION": self.admission, "BURNING_WAIT": str(self.wait)}
        return own if self.admission == "none" else own | shared


SIDES: Final = (
    Side("bare", "bare", "none", CLIENTS),
    Side("bare again", "again", "none", CLIENTS),
    Side("hardcap", "hardcap", "shared", CLIENTS),
    Side("spinning", "spinning", "spinning", CLIENTS),
    Side("unloaded", "full", "shared", LIMIT, LIMIT, WAIT),
    Side("overloaded", "full", "shared", OVERLOAD * LIMIT, LIMIT, WAIT),
)


def measure(plan: Plan, scratch: Path | None) -> Http:
    """Everything, in this order. ``Unusable`` if no server can be had."""
    with stage.segments(scratch) as directory, stage.progress(plan.laps + plan.rounds * len(SIDES)) as step:
        mode = stage.fastest_first(stage.modes(directory))[0]
        direct = http_direct.measure(mode, plan.laps, step)
        loads = loops.run(_serve(plan, mode, step))
    return Http(machine.describe(mode.backend), mode, direct, loads)


async def _serve(plan: Plan, mode: Hardcap, step: Step) -> Mapping[str, Load]:
    async with AsyncExitStack() as leave:
        one_each = {side.server: side for side in SIDES}
        servers = {name: _server(side, mode, leave) for name, side in one_each.items()}
        crowds = [await _crowd(servers[side.server], side, leave) for side in SIDES]
        loads = [Load() for _ in SIDES]
        for turn in range(plan.rounds):
            for index in rotated(len(SIDES), turn):
                step(f"round {turn + 1} of {plan.rounds}: {SIDES[index].name}")
                loads[index].add(*await _ask(crowds[index], plan.seconds))
        for server in servers.values():
            server.check()
    return {side.name: load for side, load in zip(SIDES, loads, strict=True)}


async def _ask(crowd: Crowd, seconds: float) -> tuple[Tally, float, float]:
    """What was met, in how many seconds, and how many of the workers' processors."""
    before = sum(map(processes.processor_seconds, crowd.workers))
    tally, took = await crowd.ask_for(seconds)
    return tally, took, sum(map(processes.processor_seconds, crowd.workers)) - before


def _server(side: Side, mode: Hardcap, leave: AsyncExitStack) -> Server:
    port = leave.enter_context(keep_port(0)).getsockname()[1]
    log = Path(mode.directory, f"{side.server}.log")
    return leave.enter_context(Server(APP, port, WORKERS, side.environ(mode), log))


async def _crowd(server: Server, side: Side, leave: AsyncExitStack) -> Crowd:
    return await leave.enter_async_context(Crowd(server, side.clients, Line, ASK_AGAIN))
