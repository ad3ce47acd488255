"""Admission for ASGI applications: one request, one reservation, given back once.

An http request is counted before the application is called, and until the server has taken the last message of its
response or the application has ended, whichever is first. Everything else passes through uncounted.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from hardcap.config import Config, MiddlewareSettings
from hardcap.errors import CapExceeded, ConfigError
from hardcap.limiter import Limiter
from hardcap.permit import Permit
from hardcap.source import Amount, Source

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["HardcapMiddleware"]

_BODIES: Final = frozenset({"http.response.body", "http.response.pathsend", "http.response.zerocopysend"})
_RELEASE_ON: Final = ("response", "app")
_DEFAULTS: Final = MiddlewareSettings()


class _Unset:
    """Marks the default of an argument: the environment, when it is read, goes before it."""


class _Int(_Unset, int): ...


class _Float(_Unset, float): ...


class _Paths(_Unset, tuple[str, ...]): ...


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
        exempt: Collection[str] = _Paths(_DEFAULTS.exempt),
        status: int = _Int(_DEFAULTS.status),
        retry_after: float = _Float(_DEFAULTS.retry_after),
        timeout: float = _Float(_DEFAULTS.timeout),
        release_on: str = "response",
    ) -> None:
        _check(limiter, config, release_on)
        from_env = limiter is None and config is None
        settings = _settings(from_env, exempt=exempt, status=status, retry_after=retry_after, timeout=timeout)
        self._app = app
        self._source = Source(limiter, Config.from_env() if from_env else config)
        self._amount = amount
        exempt = {path.rstrip("/") for path in settings.exempt}
        self._exempt = exempt | {f"{path}/" for path in exempt}
        self._until_response = release_on == "response"
        self._full = _Refusal(settings.status, settings.retry_after, "overloaded", "too many requests in flight")
        self._unavailable = _Refusal(503, settings.retry_after, "unavailable", "admission control is unavailable")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _path(scope) in self._exempt:
            await self._app(scope, receive, send)
            return
        amount = self._units(scope)
        permit, answer = None, self._unavailable
        try:
            permit = self._source.admit(amount) or await self._source.admit_attached(amount)
        except CapExceeded:
            answer = self._full
        if permit is None:
            await answer(scope, receive, send)
            return
        with permit:
            await self._app(scope, receive, _releasing(permit, send) if self._until_response else send)

    def _units(self, scope: Scope) -> Amount:
        amount = 1 if self._amount is None else self._amount(scope)
        if amount == {}:
            raise ConfigError("amount", amount, "a number of units, or units by resource, at least one")
        return amount


def _check(limiter: object, config: object, release_on: object) -> None:
    if not isinstance(limiter, Limiter | None):
        raise ConfigError("limiter", limiter, "a Limiter, as hardcap.open returns it")
    if not isinstance(config, Config | None):
        raise ConfigError("config", config, "a Config")
    if limiter and config:
        raise ConfigError("config", config, "a limiter or a config, not both")
    if release_on not in _RELEASE_ON:
        raise ConfigError("release_on", release_on, " or ".join(map(repr, _RELEASE_ON)))


def _settings(from_env: bool, **arguments: Any) -> MiddlewareSettings:
    base = MiddlewareSettings.from_env() if from_env else MiddlewareSettings()
    given = {name: value for name, value in arguments.items() if not isinstance(value, _Unset)}
    settings = dataclasses.replace(base, **given)
    if settings.timeout != 0:
        raise NotImplementedError(f"timeout is {settings.timeout!r}, waiting for admission is not there yet: use 0")
    return settings


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


class _Refusal:
    """The answer to a request that is not let in: an application that never reads the request."""

    def __init__(self, status: int, retry_after: float, kind: str, text: str) -> None:
        self._status = status
        self._body = json.dumps({"error": {"message": text, "type": kind, "code": status}}).encode()
        self._headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self._body)),
            (b"retry-after", b"%d" % math.ceil(retry_after)),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A list of its own each time: middlewares further out add their headers in place.
        await send({"type": "http.response.start", "status": self._status, "headers": list(self._headers)})
        body = b"" if scope["method"] == "HEAD" else self._body
        await send({"type": "http.response.body", "body": body, "more_body": False})
