"""The answer to a request that is not let in, whatever the interface it came by."""

from __future__ import annotations

import json
import math

from hardcap.config import MiddlewareSettings


class Refusal:
    """Status, headers and body; a client that asked with HEAD gets the same headers and no body."""

    def __init__(self, status: int, retry_after: float, kind: str, text: str) -> None:
        self.status = status
        self._body = json.dumps({"error": {"message": text, "type": kind, "code": status}}).encode()
        self.headers = (
            ("content-type", "application/json"),
            ("content-length", str(len(self._body))),
            ("retry-after", str(math.ceil(retry_after))),
        )

    def body(self, method: str) -> bytes:
        return b"" if method == "HEAD" else self._body


def refusals(settings: MiddlewareSettings) -> tuple[Refusal, Refusal]:
    """Those of a full cap, and of one that cannot be asked."""
    full = Refusal(settings.status, settings.retry_after, "overloaded", "too many requests in flight")
    unavailable = Refusal(503, settings.retry_after, "unavailable", "admission control is unavailable")
    return full, unavailable
