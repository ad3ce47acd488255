"""Admission for ASGI applications: one request, one reservation, given back once.

An http request is counted before the application is called, and until the server has taken the last message of its
response or the application has ended, whichever is first. Everything else passes through uncounted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from hardcap import arguments
from hardcap.config import Config
from hardcap.errors import CapExceeded, ConfigError
from hardcap.limiter import Limiter
from hardcap.permit import Permit
from hardcap.refusal import Refusal, refusals
from hardcap.source import Amount

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["HardcapMiddleware"]

_BODIES: Final = frozenset({"http.response.body", "http.response.pathsend", "http.response.zerocopysend"})
_RELEASE_ON: Final = ("response", "app")


class HardcapMiddleware:
    """Counts http requests against the shared cap, and refuses what is over it before the application is called.

    Given only the application, everything comes from the environment: see ``Config.from_env``. Bad configuration
    raises ``ConfigError`` here. The segment is attached to at the first request that counts; while that fails, every
    request is answered 503, the reason is logged, and it is tried again each second. Nothing ever runs uncapped.

    ``limiter`` is used as it is, and stays the caller's to close; or ``config`` says what to open. With either, the
    environment is not read; without, the arguments go before it. When the segment is retired (``unlink --force``), the
    middleware opens a new one of that name, with the same configuration, and goes on with that.

    ``amount`` is called with the scope, and returns the units of the first resource or a mapping of resource to
    units; 1 without it. What it raises goes to the server, and nothing is counted.
    ``exempt`` are paths, below ``root_path``, that are neither counted nor refused; a trailing slash is tolerated.
    ``status`` and ``retry_after`` (seconds, rounded up in the header, 0 allowed) are those of a refusal.
    ``release_on="app"`` holds the units until the application has returned, background tasks included.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter | None = None,
        *,
        config: Config | None = None,
        amount: Callable[[Scope], Amount] | None = None,
        exempt: Collection[str] = arguments.EXEMPT,
        status: int = arguments.STATUS,
        retry_after: float = arguments.RETRY_AFTER,
        timeout: float = arguments.TIMEOUT,
        release_on: str = "response",
    ) -> None:
        if release_on not in _RELEASE_ON:
            raise ConfigError("release_on", release_on, " or ".join(map(repr, _RELEASE_ON)))
        given = {"exempt": exempt, "status": status, "retry_after": retry_after, "timeout": timeout}
        settings, self._source = arguments.settle(limiter, config, given)
        self._app = app
        self._amount = amount
        self._exempt = arguments.exempt_paths(settings)
        self._until_response = release_on == "response"
        self._full, self._unavailable = refusals(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _path(scope) in self._exempt:
            await self._app(scope, receive, send)
            return
        amount = arguments.units(self._amount, scope)
        permit, answer = None, self._unavailable
        try:
            permit = self._source.admit(amount) or await self._source.admit_attached(amount)
        except CapExceeded:
            answer = self._full
        if permit is None:
            await _refuse(answer, scope, send)
            return
        with permit:
            await self._app(scope, receive, _releasing(permit, send) if self._until_response else send)


def _path(scope: Scope) -> str:
    """The path below ``root_path``: servers and mounts of the newer kind leave the prefix in ``path``."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))


def _releasing(permit: Permit, send: Send) -> Send:
    """``send`` that gives the permit back once the server has taken the last message of the response."""
    trailers = False

    async def send_and_release(message: Message) -> None:
        nonlocal trailers
        kind = message["type"]
        if kind in _BODIES:
            last = not trailers and not message.get("more_body", False)
        elif kind == "http.response.trailers":
            last = not message.get("more_trailers", False)
        else:
            last = False
            trailers = trailers or bool(message.get("trailers", False))
        await send(message)
        if last:
            permit.release()

    return send_and_release


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    """Answer without reading the request."""
    headers = [(name.encode(), value.encode()) for name, value in refusal.headers]  # its own: some add to it in place
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body(scope["method"]), "more_body": False})
