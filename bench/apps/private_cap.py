"""The fault that hardcap is about: a cap that every worker process keeps for itself."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_REFUSAL = {"error": {"message": "too many requests in flight", "type": "overloaded", "code": 503}}


class PrivateCap:
    """Refuses above ``limit`` requests in this process; W workers therefore let W * ``limit`` through."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
        elif self._in_flight >= self._limit:
            refusal = JSONResponse(_REFUSAL, status_code=503, headers={"Retry-After": "1"})
            await refusal(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1
