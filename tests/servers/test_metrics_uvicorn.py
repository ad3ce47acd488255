"""What Prometheus sees of four uvicorn workers, whichever of them it asks."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.test_asgi_uvicorn import TIMEOUT, Holders
from tests.support.processes import eventually
from tests.support.servers import Server, uvicorn

APP = "tests.support.scraped_app:app"
WORKERS = 4
SCRAPES = 100

Scrape = dict[str, float]  # by family, suffix and label values


def parsed(text: str) -> Scrape:
    """The samples by name, with the resource and no other label."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {sample.name + sample.labels.get("resource", ""): sample.value for sample in samples}


def scrape(server: Server) -> tuple[str, Scrape]:
    """By a connection of its own, so by any worker; which one, and what it says of hardcap."""
    response = httpx.get(f"{server.url}/metrics", timeout=TIMEOUT, trust_env=False)
    shown = parsed(response.text)
    return response.headers["x-worker"], {key: value for key, value in shown.items() if key.startswith("hardcap")}


async def scrape_all(server: Server) -> dict[str, list[Scrape]]:
    """At least `SCRAPES`, and until each worker has answered."""
    seen: dict[str, list[Scrape]] = defaultdict(list)
    while len(seen) < WORKERS or sum(map(len, seen.values())) < SCRAPES:
        for worker, shown in await asyncio.gather(*(asyncio.to_thread(scrape, server) for _ in range(10))):
            seen[worker].append(shown)
    return seen


@pytest.mark.parametrize("multiprocess", [False, True], ids=["ordinary", "multiprocess"])
def test_b43_every_worker_shows_the_one_truth(name: str, segment_dir: Path, tmp_path: Path, multiprocess: bool) -> None:
    """Three in flight, two refused, a worker killed that holds, and all of it gone again without further traffic."""

    async def watch(server: Server) -> None:
        async with Holders.of(server) as holders:
            await holders.add(3 + 2)
            assert (len(holders.admitted), len(holders.refused)) == (3, 2)
            seen = await scrape_all(server)
            truth = next(iter(seen.values()))[0]
            assert all(shown == truth for shown_by_one in seen.values() for shown in shown_by_one)
            assert truth["hardcap_in_flightrequests"] == truth["hardcap_limitrequests"] == server.holders == 3
            assert (truth["hardcap_admitted_total"], truth["hardcap_rejected_totalrequests"]) == (3, 2)
            attached = len({*holders.admitted, *holders.refused})
            assert truth["hardcap_processes"] == attached
            victim = holders.admitted[0]
            os.kill(int(victim), signal.SIGKILL)
            left = 3 - holders.admitted.count(victim)
            eventually(lambda: scrape(server)[1]["hardcap_in_flightrequests"] == left, "the dead hold nothing")
            after = scrape(server)[1]
            assert after["hardcap_processes"] == attached - 1
            assert all(after[total] >= truth[total] for total in truth if "_total" in total)
        eventually(lambda: scrape(server)[1]["hardcap_in_flightrequests"] == 0, "nothing in flight")
        assert scrape(server)[1]["hardcap_admitted_total"] == 3

    env = {"HARDCAP_NAME": name, "HARDCAP_DIR": os.fspath(segment_dir), "HARDCAP_LIMIT": "3"}
    if multiprocess:
        (tmp_path / "values").mkdir()
        env["PROMETHEUS_MULTIPROC_DIR"] = os.fspath(tmp_path / "values")
    with uvicorn(APP, tmp_path, workers=WORKERS, env=env) as server:
        asyncio.run(asyncio.wait_for(watch(server), 100))


def test_b43_a_workers_own_gauge_is_not_the_truth(name: str, segment_dir: Path, tmp_path: Path) -> None:
    """The control: what a worker counts for itself, on its own registry, is a random worker's view."""

    async def watch(server: Server) -> None:
        async with Holders.of(server) as holders:
            await holders.add(1)
            holder, views = holders.admitted[0], dict[str, float]()
            while len(views) < WORKERS:
                response = await asyncio.to_thread(httpx.get, f"{server.url}/metrics", timeout=TIMEOUT, trust_env=False)
                views[response.headers["x-worker"]] = parsed(response.text)["app_held"]
            assert views == dict.fromkeys(views, 0) | {holder: 1}

    env = {"HARDCAP_NAME": name, "HARDCAP_DIR": os.fspath(segment_dir), "HARDCAP_LIMIT": "3"}
    with uvicorn(APP, tmp_path, workers=WORKERS, env=env) as server:
        asyncio.run(asyncio.wait_for(watch(server), 60))
