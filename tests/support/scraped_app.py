"""The capped application of `held_app`, with ``/metrics`` in the manner of ``prometheus_client``.

With ``PROMETHEUS_MULTIPROC_DIR`` a registry is made for each scrape, else there is the process's own. ``app_held`` and
``app_asked`` are the application's own metrics: what becomes of those that each worker keeps for itself.
"""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from hardcap.asgi import HardcapMiddleware
from hardcap.prometheus import HardcapCollector
from tests.support.held_app import plain, signed

COLLECTOR = HardcapCollector(os.environ["HARDCAP_NAME"], os.environ["HARDCAP_DIR"])
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR" in os.environ
HELD = Gauge("app_held", "Requests held by a worker.", multiprocess_mode="all")
ASKED = Counter("app_asked", "Requests to hold.")

if not MULTIPROCESS:
    REGISTRY.register(COLLECTOR)


def registry() -> CollectorRegistry:
    if not MULTIPROCESS:
        return REGISTRY
    made = CollectorRegistry()
    MultiProcessCollector(made)  # type: ignore[no-untyped-call]
    made.register(COLLECTOR)
    return made


async def measured(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"] == "/metrics":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": generate_latest(registry())})
    elif scope["type"] == "http" and scope["path"] == "/hold":
        ASKED.inc()
        with HELD.track_inprogress():
            await plain(scope, receive, send)
    else:
        await plain(scope, receive, send)


app = signed(HardcapMiddleware(measured))
