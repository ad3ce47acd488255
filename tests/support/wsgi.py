"""Drive a WSGI application by the standard library's own server side, one request at a time, without sockets."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.handlers import SimpleHandler
from wsgiref.util import setup_testing_defaults

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]

PLAIN = [("Content-Type", "text/plain")]


class Raising(SimpleHandler):
    """What the server would log, and answer with a page of its own, goes to the test."""

    origin_server = False  # it sends no date

    def handle_error(self) -> None:
        raise


class Answer:
    """What the server sent for one request."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent
        head, _, self.body = sent.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


def environ(path: str = "/", method: str = "GET", **more: Any) -> Environ:
    made: Environ = {"SCRIPT_NAME": "", "PATH_INFO": path, "REQUEST_METHOD": method, "QUERY_STRING": "", **more}
    setup_testing_defaults(made)
    return made


def call(app: App, file_wrapper: object = None) -> Any:
    """What the application returns, to be iterated and closed by the test."""
    made = environ() | {"wsgi.file_wrapper": file_wrapper}
    return app(made, lambda status, headers, exc_info=None: lambda data: None)


def serve(app: App, path: str = "/", method: str = "GET", output: io.BytesIO | None = None, **more: Any) -> Answer:
    """The answer; what the application raises is raised here."""
    output = output or io.BytesIO()
    handler = Raising(io.BytesIO(), output, io.StringIO(), environ(path, method, **more))
    handler.run(app)
    return Answer(output.getvalue())


class Body:
    """Chunks, and what was done with them."""

    def __init__(self, *chunks: bytes) -> None:
        self.closed = 0
        self._chunks = iter(chunks)

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        self.closed += 1


def answers(*chunks: bytes) -> App:
    """An application that answers with these chunks."""

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", list(PLAIN))
        return list(chunks)

    return app
