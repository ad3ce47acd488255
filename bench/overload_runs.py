"""The five runs of the overload benchmark: a fresh server each, the same load, one independent witness."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import hardcap
from bench import loops, recovery
from bench.clients import Crowd, Tally
from bench.percentiles import percentile
from bench.server import Server, keep_port
from bench.witness import Witness

LIMIT: Final = 10
WORKERS: Final = 4
CLIENTS: Final = 80
APP: Final = "bench.apps.streaming:app"
SEGMENT: Final = "overload"

Measured = dict[str, Any]
Show = Callable[[int], None]


@dataclass(frozen=True)
class Run:
    """One server under load. ``mode`` is hardcap's; without one, ``admission`` is what the application does itself."""

    name: str
    admission: str
    mode: str = ""
    kill: bool = False


RUNS: Final = (
    Run("control", "none"),
    Run("per-process", "per-process"),
    Run("approximate", "shared", "approximate"),
    Run("strict", "shared", "strict"),
    Run("kill", "shared", "strict", kill=True),
)


def measure_all(port: int, seconds: float) -> dict[str, Measured]:
    """All runs by name, each with ``seconds`` of load. ``Unusable`` if no server can be had."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="hardcap-overload-", dir=memory) as scratch,
        keep_port(port) as kept,
        _progress() as progress,
    ):
        return loops.run(_measure_all(Path(scratch), kept.getsockname()[1], seconds, progress))


async def _measure_all(scratch: Path, port: int, seconds: float, progress: Progress) -> dict[str, Measured]:
    bar = progress.add_task("", total=len(RUNS), in_flight=0)
    measured = {}
    for run in RUNS:
        _announce(progress, bar, run.name)
        site = Site(run, scratch, port, lambda now: progress.update(bar, in_flight=now))
        measured[run.name] = await site.measure(seconds)
        progress.advance(bar)
    return measured


def _announce(progress: Progress, bar: TaskID, name: str) -> None:
    progress.update(bar, description=name, in_flight=0)
    if progress.disable:
        progress.console.print(f"overload: {name}")


def _progress() -> Progress:
    columns = (BarColumn(), TextColumn("{task.description}: {task.fields[in_flight]} in flight"), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class Site:
    """Where one run takes place: its own server, segment directory and witness."""

    def __init__(self, run: Run, scratch: Path, port: int, show: Show) -> None:
        self._run = run
        self._port = port
        self._show = show
        self._log = scratch / f"{run.name}.log"
        self._witness = scratch / f"{run.name}.witness"
        self._segments = scratch / run.name
        self._segments.mkdir(mode=0o700)

    async def measure(self, seconds: float) -> Measured:
        """Load the server, and say what came of it."""
        with (
            Server(APP, self._port, WORKERS, self._environ(), self._log) as server,
            closing(Witness(self._witness)) as witness,
        ):
            async with Crowd(server, CLIENTS) as crowd:
                begun = time.perf_counter()
                async with self._asking(crowd, witness):
                    more = await self._take_place(witness, seconds)
                took = time.perf_counter() - begun
            if self._run.mode:
                more |= await self._aftermath(witness)
            server.check()
            return {"peak_in_flight": witness.peak} | _figures(crowd.tally, took) | more

    def _environ(self) -> dict[str, str]:
        environ = {"OVERLOAD_ADMISSION": self._run.admission, "OVERLOAD_LIMIT": str(LIMIT)}
        environ |= {"OVERLOAD_WITNESS": str(self._witness)}
        if self._run.mode:
            environ |= {"HARDCAP_NAME": SEGMENT, "HARDCAP_LIMIT": str(LIMIT), "HARDCAP_MODE": self._run.mode}
            environ |= {"HARDCAP_DIR": str(self._segments)}
        return environ

    async def _take_place(self, witness: Witness, seconds: float) -> Measured:
        if not self._run.kill:
            await asyncio.sleep(seconds)
            return {}
        load = asyncio.create_task(asyncio.sleep(seconds))
        await asyncio.sleep(seconds / 2)
        story = await recovery.kill_a_worker(witness, LIMIT)
        await load
        return story.as_dict()

    async def _aftermath(self, witness: Witness) -> Measured:
        backend = os.environ.get("HARDCAP_BACKEND")  # the workers' too, see Server
        with hardcap.open(SEGMENT, directory=str(self._segments), backend=backend) as limiter:
            return {
                "capacity_after": await recovery.capacity(limiter, witness),
                "backend": limiter.snapshot().backend,
            }

    @asynccontextmanager
    async def _asking(self, crowd: Crowd, witness: Witness) -> AsyncIterator[None]:
        asking = asyncio.create_task(crowd.ask())
        watching = asyncio.create_task(self._watch(witness))
        try:
            yield
        finally:
            watching.cancel()
            crowd.stop()
            await asking

    async def _watch(self, witness: Witness) -> None:
        while True:
            self._show(witness.current)
            await asyncio.sleep(0.1)


def _figures(tally: Tally, seconds: float) -> Measured:
    figures: Measured = {}
    for kind, times in (("admitted", sorted(tally.admitted)), ("refused", sorted(tally.refused))):
        figures[kind] = len(times)
        figures[f"{kind}_per_second"] = round(len(times) / seconds, 1)
        for name, fraction in (("p50", 0.5), ("p99", 0.99)):
            figures[f"{kind}_{name}_ms"] = round(1000 * percentile(times, fraction), 2) if times else None
    causes = dict(tally.errors.most_common(3))
    return figures | {"errors": tally.errors.total(), "error_causes": causes, "seconds": round(seconds, 3)}
