"""A small service for whatever server starts it in several processes, under the cap that the environment names.

Nothing is attached here: each process attaches at its first request, so it may be loaded before the workers are forked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import hardcap.asgi
import hardcap.wsgi


async def _page(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"process {os.getpid()}\n")


def _simple(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"process {os.getpid()}\n".encode()]


asgi = hardcap.asgi.HardcapMiddleware(Starlette(routes=[Route("/", _page)]))
wsgi = hardcap.wsgi.HardcapMiddleware(_simple)
