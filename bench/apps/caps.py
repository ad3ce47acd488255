"""Caps that services have without hardcap: one that every worker process keeps for itself, and a shared semaphore."""

from __future__ import annotations

from typing import Protocol

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_REFUSAL = {"error": {"message": "too many requests in flight", "type": "overloaded", "code": 503}}


class Gate(Protocol):
    """Who lets in."""

    def reserve(self) -> bool: ...

    def release(self) -> None: ...


class PrivateCount:
    """The fault that hardcap is about: W workers let W * ``limit`` through."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_flight = 0

    def reserve(self) -> bool:
        if self._in_flight >= self._limit:
            return False
        self._in_flight += 1
        return True

    def release(self) -> None:
        self._in_flight -= 1


class Capped:
    """Refuses what the gate does not let in."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
        elif self._gate.reserve():
            try:
                await self._app(scope, receive, send)
            finally:
                self._gate.release()
        else:
            refusal = JSONResponse(_REFUSAL, status_code=503, headers={"Retry-After": "1"})
            await refusal(scope, receive, send)
