"""Applications whose limiter is made and used at import: under ``--preload`` in the master, whose workers inherit it.

Configured by the environment, as `tests.support.held_app`. ``/sleep`` and ``/keep-the-gil`` block until the server
loses patience with the worker.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import hardcap
from hardcap.asgi import HardcapMiddleware
from tests.support import held_app
from tests.support.held_app import WITNESS

limiter = hardcap.open(hardcap.Config.from_env())
assert limiter.reserve()
limiter.release()

BLOCKING: Final[dict[str, Callable[[int], object]]] = {
    "/sleep": time.sleep,
    "/keep-the-gil": ctypes.PyDLL(None).sleep,
}
_numbers = itertools.count()


async def blocking(scope: Any, receive: Any, send: Any) -> None:
    """A handler that holds the event loop up."""
    if scope.get("path") in BLOCKING:
        BLOCKING[scope["path"]](60)
    await held_app.plain(scope, receive, send)


asgi = held_app.signed(HardcapMiddleware(blocking, limiter))


def wsgi(environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """Holds a unit until its iterable is closed."""
    if not limiter.reserve():
        start_response("503 Service Unavailable", [("content-length", "0")])
        return []
    start_response("200 OK", [])
    return admitted(environ["PATH_INFO"])


def admitted(path: str) -> Iterator[bytes]:
    try:
        if path in BLOCKING:
            BLOCKING[path](60)
        if path == "/hold":
            yield from hold()
        yield b"end"
    finally:
        limiter.release()


def hold() -> Iterator[bytes]:
    holder = WITNESS / f"holder-{os.getpid()}-{next(_numbers)}"
    os.close(os.open(holder, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        while not (WITNESS / "open").exists():
            yield b"chunk "
            time.sleep(0.01)
    finally:
        holder.unlink()
