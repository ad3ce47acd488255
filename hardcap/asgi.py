"""Admission for ASGI applications: one request, one reservation, given back once.

An http request is counted before the application is called, and until the server has taken the last message of its
response or the application has ended, whichever is first. Everything else passes through uncounted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from concurrent.futures import Future
from typing import Any, Final

import hardcap
from hardcap.config import Config, MiddlewareSettings
from hardcap.errors import CapExceeded, ConfigError, SegmentError
from hardcap.limiter import Limiter
from hardcap.permit import Permit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Amount = int | Mapping[str, int]

__all__ = ["HardcapMiddleware"]

_RETRY_SECONDS: Final = 1.0
_BODIES: Final = frozenset({"http.response.body", "http.response.pathsend", "http.response.zerocopysend"})
_RELEASE_ON: Final = ("response", "app")
_DEFAULTS: Final = MiddlewareSettings()

log = logging.getLogger("hardcap")


class _Unset:
    """Marks the default of an argument: the environment, when it is read, goes before it."""


class _Int(_Unset, int):
    pass


class _Float(_Unset, float):
    pass


class _Paths(_Unset, tuple[str, ...]):
    pass


class HardcapMiddleware:
    """Counts http requests against the shared cap, and refuses what is over it before the application is called.

    Given only the application, everything comes from the environment: see ``Config.from_env``. Bad configuration
    raises ``ConfigError`` here. The segment is attached to at the first request that counts; while that fails, every
    request is answered 503, the reason is logged, and it is tried again each second. Nothing ever runs uncapped.

    ``limiter`` is used as it is, and stays the caller's to close; or ``config`` says what to open. With either, the
    environment is not read; without, the arguments go before it.

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
        if limiter is not None and config is not None:
            raise ConfigError("config", config, "a limiter or a config, not both")
        if release_on not in _RELEASE_ON:
            raise ConfigError("release_on", release_on, " or ".join(map(repr, _RELEASE_ON)))
        from_env = limiter is None and config is None
        settings = _settings(from_env, exempt=exempt, status=status, retry_after=retry_after, timeout=timeout)
        self._app = app
        self._source = _Source(limiter, Config.from_env() if from_env else config)
        self._amount = amount
        self._exempt = frozenset(form for path in settings.exempt for form in _with_and_without_slash(path))
        self._until_response = release_on == "response"
        self._full = _Refusal(settings.status, settings.retry_after, "overloaded", "too many requests in flight")
        self._unavailable = _Refusal(503, settings.retry_after, "unavailable", "admission control is unavailable")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _path(scope) in self._exempt:
            await self._app(scope, receive, send)
            return
        amount = self._units(scope)
        permit, refusal = None, self._refuse_uncounted
        try:
            limiter = self._source.limiter
            permit = self._source.admit(limiter, amount)
            if permit is None:
                permit = self._source.admit(await self._source.renewed(limiter), amount)
        except CapExceeded:
            refusal = self._full
        if permit is None:
            await refusal(scope, receive, send)
            return
        with permit:
            await self._app(scope, receive, _releasing(permit, send) if self._until_response else send)

    async def _refuse_uncounted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._source.report()
        await self._unavailable(scope, receive, send)

    def _units(self, scope: Scope) -> Amount:
        amount = 1 if self._amount is None else self._amount(scope)
        if amount == {}:
            raise ConfigError("amount", amount, "a number of units, or units by resource, at least one")
        return amount


def _settings(from_env: bool, **arguments: Any) -> MiddlewareSettings:
    base = MiddlewareSettings.from_env() if from_env else MiddlewareSettings()
    given = {name: value for name, value in arguments.items() if not isinstance(value, _Unset)}
    settings = dataclasses.replace(base, **given)
    if settings.timeout != 0:
        raise NotImplementedError(f"timeout is {settings.timeout!r}, waiting for admission is not there yet: use 0")
    return settings


def _with_and_without_slash(path: str) -> tuple[str, str]:
    bare = path.rstrip("/")
    return bare, f"{bare}/"


def _path(scope: Scope) -> str:
    """The path below ``root_path``: servers and mounts of the newer kind leave the prefix in ``path``."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


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


class _Source:
    """Where the limiter comes from: given, or opened when it is first needed, and again when its segment is gone.

    Opening may wait seconds for the directory's lock, so it has a thread of its own. There is one attempt at a time in
    a process, whatever the number of event loops, and all who need the limiter wait for it. After a failure, or a
    renewal, there is none for a second.
    """

    def __init__(self, limiter: Limiter | None, config: Config | None) -> None:
        self.limiter = limiter
        self._config = config
        self._trouble: Exception | None = None
        self._attempt_after = self._log_after = -math.inf
        self.forget_attempt()
        _sources.add(self)

    def forget_attempt(self) -> None:
        """In a forked child: whoever held the lock, or was opening, is not there."""
        self._lock = threading.Lock()
        self._attempt: Future[Limiter | None] | None = None

    def admit(self, limiter: Limiter | None, amount: Amount) -> Permit | None:
        """A permit; None if this limiter cannot be asked. ``CapExceeded`` if it says no."""
        if limiter is None:
            return None
        try:
            if isinstance(amount, Mapping):  # our own keywords written out: among the resources they are an error
                return limiter.admit(timeout=0.0, headroom=0, **amount)
            return limiter.admit(amount)
        except (SegmentError, OSError) as error:
            self._trouble = error
            return None

    async def renewed(self, stale: Limiter | None) -> Limiter | None:
        """Another limiter than ``stale``, if there is one by now or one can be opened."""
        attempt = self._attempt_under_way(stale)
        return self.limiter if attempt is None else await asyncio.wrap_future(attempt)

    def report(self) -> None:
        """Log what is wrong, at most one line a second."""
        with self._lock:
            now = time.monotonic()
            if now < self._log_after:
                return
            self._log_after = now + _RETRY_SECONDS
        log.error("requests are answered 503, because none can be counted: %s", self._trouble)

    def _attempt_under_way(self, stale: Limiter | None) -> Future[Limiter | None] | None:
        with self._lock:
            due = self.limiter is stale and time.monotonic() >= self._attempt_after
            if self._attempt is None and self._config is not None and due:
                self._attempt = _uncancellable()
                threading.Thread(target=self._open, args=(self._config, self._attempt), name="hardcap-open").start()
            return self._attempt

    def _open(self, config: Config, attempt: Future[Limiter | None]) -> None:
        limiter = None
        try:
            limiter = hardcap.open(config)
        except Exception as error:  # whatever it is: without a limiter nothing is let in
            self._trouble = error
        with self._lock:
            if limiter is None or self.limiter is not None:
                self._attempt_after = time.monotonic() + _RETRY_SECONDS
            self.limiter = limiter or self.limiter
            self._attempt = None
        attempt.set_result(limiter)


def _uncancellable() -> Future[Limiter | None]:
    """A future that stays when one of those who wait for it is cancelled."""
    future: Future[Limiter | None] = Future()
    future.set_running_or_notify_cancel()
    return future


_sources: weakref.WeakSet[_Source] = weakref.WeakSet()


def _forget_attempts() -> None:
    for source in _sources:
        source.forget_attempt()


os.register_at_fork(after_in_child=_forget_attempts)
