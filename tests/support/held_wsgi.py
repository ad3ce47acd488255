"""The counterpart of `tests.support.held_app` for WSGI servers: requests last until the test says so.

``/hold`` streams until the file ``open`` is there, ``/file`` sends the file ``large`` and notes when anybody reads it,
``/fail/...`` raises, and ``/sleep/...`` never answers. ``app`` is capped, ``uncapped`` is not.
"""

from __future__ import annotations

import io
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hardcap.wsgi import HardcapMiddleware
from tests.support.hanging import sleep

WITNESS = Path(os.environ["WITNESS"])
_numbers = itertools.count()


class Stream:
    """Chunks for as long as the request is held; the witness counts it from here until it is closed."""

    def __init__(self, fails: str = "") -> None:
        self._fails = fails
        self._holder = WITNESS / f"holder-{os.getpid()}-{next(_numbers)}"
        os.close(os.open(self._holder, os.O_CREAT | os.O_EXCL | os.O_WRONLY))

    def __iter__(self) -> Iterator[bytes]:
        yield b"chunk "
        if self._fails == "body":
            raise LookupError("the application's own")
        while not self._fails and not (WITNESS / "open").exists():
            time.sleep(0.01)
            yield b"chunk "
        yield b"end"

    def close(self) -> None:
        self._holder.unlink()
        if self._fails == "close":
            raise LookupError("the application's own")


class Noted(io.FileIO):
    """A file that notes it when it is read: a server that lets the kernel send it never does."""

    def read(self, size: int | None = -1, /) -> bytes:
        (WITNESS / "read").touch()
        return super().read(-1 if size is None else size)


def plain(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    path = environ["PATH_INFO"]
    kind, _, what = path.removeprefix("/").partition("/")
    if path == "/fail/call":
        raise LookupError("the application's own")
    if kind == "sleep":
        sleep(what)
    start_response("200 OK", [("Content-Type", "text/plain")])
    if kind == "file":
        made: Iterable[bytes] = environ["wsgi.file_wrapper"](Noted(WITNESS / "large"))
        return made
    return Stream(what) if kind in ("hold", "fail") else [b"ok"]


def signed(app: Any) -> Any:
    """Every response says which worker it came from, and takes that worker long enough for others to get the next."""

    def signing(environ: dict[str, Any], start_response: Any) -> Any:
        def sign(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            time.sleep(0.005)
            return start_response(status, [*headers, ("X-Worker", str(os.getpid()))], *error)

        return app(environ, sign)

    return signing


uncapped = signed(plain)
app = signed(HardcapMiddleware(plain)) if "HARDCAP_NAME" in os.environ else uncapped
