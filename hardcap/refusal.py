"""What a request that is not let in is told, by whatever server: status, headers and body."""

from __future__ import annotations

import functools
import json
import math

from hardcap.config import MiddlewareSettings
from hardcap.errors import ConfigError
from hardcap.settings import RETRY_AFTER, RetryAfter, check_seconds

Headers = list[tuple[str, str]]
RawHeaders = list[tuple[bytes, bytes]]

_USUAL = 256  # bytes of what a client says it accepts and sends; more is not kept for the next one


class Refusal:
    """One reason to refuse, in the words of OpenAI's API for a client that speaks JSON, else as a line of text."""

    def __init__(self, status: int, retry_after: RetryAfter, kind: str, text: str) -> None:
        self.status = status
        self._retry_after = retry_after if callable(retry_after) else math.ceil(retry_after)
        self._fixed = None if callable(retry_after) else (b"retry-after", b"%d" % math.ceil(retry_after))
        error = {"message": text, "type": kind, "param": None, "code": status}
        self._json = _Said("application/json", json.dumps({"error": error}).encode())
        self._text = _Said("text/plain; charset=utf-8", f"{text}\n".encode())

    def answer(self, accept: str, content_type: str) -> tuple[Headers, bytes]:
        """Headers and body, by the request's two headers. To HEAD the headers are the same, and the body is not sent.

        The list is the caller's own: middlewares further out add their headers in place.
        """
        said = self._json if speaks_json(accept, content_type) else self._text
        return [*said.headers, ("retry-after", str(whole_seconds(self._retry_after)))], said.body

    def raw_answer(self, accept: bytes, content_type: bytes) -> tuple[RawHeaders, bytes]:
        """The same with headers as ASGI has them."""
        usual = len(accept) + len(content_type) <= _USUAL
        speaks = _usually_speaks_json if usual else _raw_speaks_json
        said = self._json if speaks(accept, content_type) else self._text
        retry_after = self._fixed or (b"retry-after", b"%d" % whole_seconds(self._retry_after))
        return [*said.raw_headers, retry_after], said.body


class _Said:
    """A body and the headers that tell of it, made once: refusals come in floods."""

    def __init__(self, kind: str, body: bytes) -> None:
        self.body = body
        self.headers = (("content-type", kind), ("content-length", str(len(body))))
        self.raw_headers = tuple((name.encode(), value.encode()) for name, value in self.headers)


def speaks_json(accept: str, content_type: str) -> bool:
    """All do but those that ask for text and neither accept nor send JSON: browsers."""
    accept = accept.lower()
    return "text/" not in accept or "json" in accept or "json" in content_type.lower()


def _raw_speaks_json(accept: bytes, content_type: bytes) -> bool:
    return speaks_json(accept.decode("latin-1"), content_type.decode("latin-1"))


_usually_speaks_json = functools.lru_cache(maxsize=64)(_raw_speaks_json)  # nearly all of a crowd say the same


def whole_seconds(retry_after: RetryAfter) -> int:
    """Rounded up. What is called and returns no such number of seconds leaves it at the default."""
    if not callable(retry_after):
        return math.ceil(retry_after)
    try:
        return math.ceil(check_seconds("retry_after", retry_after()))
    except ConfigError:
        return math.ceil(RETRY_AFTER)


def refusals(settings: MiddlewareSettings) -> tuple[Refusal, Refusal]:
    """Those of a full cap, and of one that cannot be asked."""
    full = Refusal(settings.status, settings.retry_after, "overloaded", "too many requests in flight")
    unavailable = Refusal(503, settings.retry_after, "unavailable", "admission control is unavailable")
    return full, unavailable
