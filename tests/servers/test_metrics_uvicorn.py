"""What Prometheus sees of four uvicorn workers, whichever of them it asks."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.servers import Server, uvicorn
from tests.support.streams import Holders, client_of

APP = "tests.support.scraped_app:app"
WORKERS = 4
SCRAPES = 40

Scrape = dict[str, float]  # by family, suffix and label values


def parsed(text: str) -> Scrape:
    """The samples by name, with the resource and no other label."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {sample.name + sample.labels.get("resource", ""): sample.value for sample in samples}


def scrape(client: httpx.Client) -> tuple[str, Scrape]:
    """By a connection of its own, so by any worker; which one, and what it shows."""
    response = client.get("/metrics")
    return response.headers["x-worker"], parsed(response.text)


def of_hardcap(shown: Scrape) -> Scrape:
    return {key: value for key, value in shown.items() if key.startswith("hardcap")}


async def views_of_all(client: httpx.Client) -> list[Scrape]:
    """What each worker shows of hardcap, and what those show who happen to answer too."""
    workers, views = set[str](), list[Scrape]()
    while len(workers) < WORKERS or len(views) < SCRAPES:
        for worker, shown in await asyncio.gather(*(asyncio.to_thread(scrape, client) for _ in range(10))):
            workers.add(worker)
            views.append(of_hardcap(shown))
    return views


@pytest.mark.parametrize("multiprocess", [False, True], ids=["ordinary", "multiprocess"])
def test_b43_every_worker_shows_the_one_truth(env: Env, tmp_path: Path, multiprocess: bool) -> None:
    """Three in flight, two refused, a worker killed that holds, and all of it gone again without further traffic."""

    async def watch(server: Server, client: httpx.Client) -> None:
        def in_flight() -> float:
            return scrape(client)[1]["hardcap_in_flightrequests"]

        async with Holders.of(server) as holders:
            await holders.add(3 + 2)
            assert (len(holders.admitted), len(holders.refused)) == (3, 2)
            truth, *others = await views_of_all(client)
            assert all(other == truth for other in others)
            assert truth["hardcap_in_flightrequests"] == truth["hardcap_limitrequests"] == server.holders == 3
            assert (truth["hardcap_admitted_total"], truth["hardcap_rejected_totalrequests"]) == (3, 2)
            attached = len({*holders.admitted, *holders.refused})
            assert truth["hardcap_processes"] == attached
            victim = holders.admitted[0]
            os.kill(int(victim), signal.SIGKILL)
            left = 3 - holders.admitted.count(victim)
            eventually(lambda: in_flight() == left, "the dead hold nothing")
            after = scrape(client)[1]
            assert after["hardcap_processes"] == attached - 1
            assert all(after[total] >= truth[total] for total in truth if "_total" in total)
        eventually(lambda: in_flight() == 0, "nothing in flight")
        assert scrape(client)[1]["hardcap_admitted_total"] == 3

    environ = env(3)
    if multiprocess:
        (tmp_path / "values").mkdir()
        environ["PROMETHEUS_MULTIPROC_DIR"] = os.fspath(tmp_path / "values")
    with uvicorn(APP, tmp_path, workers=WORKERS, env=environ) as server, client_of(server) as client:
        asyncio.run(asyncio.wait_for(watch(server, client), 100))


def test_b43_a_workers_own_gauge_is_not_the_truth(env: Env, tmp_path: Path) -> None:
    """The control: what a worker counts for itself, on its own registry, is a random worker's view."""

    async def watch(server: Server, client: httpx.Client) -> None:
        async with Holders.of(server) as holders:
            await holders.add(1)
            holder, views = holders.admitted[0], dict[str, float]()
            while len(views) < WORKERS:
                worker, shown = await asyncio.to_thread(scrape, client)
                views[worker] = shown["app_held"]
            assert views == dict.fromkeys(views, 0) | {holder: 1}

    with uvicorn(APP, tmp_path, workers=WORKERS, env=env(3)) as server, client_of(server) as client:
        asyncio.run(asyncio.wait_for(watch(server, client), 60))
