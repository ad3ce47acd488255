"""Admission for ASGI applications: one request, one reservation, given back once.

An http request is counted before the application is called, and until the server has taken the last message of its
response or the application has ended, whichever is first. WebSockets are too, if asked; nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from hardcap import arguments
from hardcap.config import Config
from hardcap.errors import CapExceeded, ConfigError
from hardcap.limiter import Limiter
from hardcap.messages import App, Receive, Scope, Send, refuse, releasing
from hardcap.patience import Inbox, unless_left
from hardcap.permit import Permit
from hardcap.refusal import Refusal, refusals
from hardcap.settings import RetryAfter
from hardcap.source import Amount

__all__ = ["HardcapMiddleware"]

_RELEASE_ON: Final = ("response", "app")
_COUNTED: Final = "hardcap.counted"  # in a scope: the permit that it holds of each segment


class HardcapMiddleware:
    """Counts http requests against the shared cap, and refuses what is over it before the application is called.

    Given only the application, everything comes from the environment: see ``Config.from_env``. Bad configuration
    raises ``ConfigError`` here. The segment is attached to at the first request that counts; while that fails, every
    request is answered 503, the reason is logged, and it is tried again each second. Nothing ever runs uncapped.

    ``limiter`` is used as it is, and stays the caller's to close; or ``config`` says what to open, and how to refuse
    if it came from a file or the environment. With either, the environment is not read; the arguments go before
    all. When the segment is retired (``unlink --force``), the middleware opens a new one of that name, with the
    same configuration, and goes on with that. Of several middlewares of one segment around each other, the
    outermost counts.

    ``amount`` is called with the scope, and returns the units of the first resource or a mapping of resource to
    units; 1 without it. What it raises goes to the server, and nothing is counted.
    ``exempt`` are paths, below ``root_path``, that are neither counted nor refused: exact ones (a trailing slash is
    tolerated), and ``/static/*`` for all that begin with ``/static/``.
    ``status`` and ``retry_after`` are those of a refusal: seconds, rounded up in the header, 0 allowed, or a callable
    without arguments that returns them.
    ``timeout`` is how long a request may wait for admission, in seconds; one whose client leaves meanwhile leaves too.
    At most ``max_waiting`` requests wait at once in each process: one more is refused at once.
    ``release_on="app"`` holds the units until the application has returned, background tasks included.
    ``websockets=True`` counts WebSockets too, until they are closed or the application has returned.

    >>> from hardcap.asgi import HardcapMiddleware
    >>> async def app(scope, receive, send):
    ...     await send({"type": "http.response.start", "status": 204, "headers": []})
    ...     await send({"type": "http.response.body"})
    >>> app = HardcapMiddleware(app, config=hardcap.Config("web", limit=10), timeout=0.2)
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
        retry_after: RetryAfter = arguments.RETRY_AFTER,
        timeout: float = arguments.TIMEOUT,
        max_waiting: int = arguments.MAX_WAITING,
        release_on: str = "response",
        websockets: bool = False,
    ) -> None:
        if release_on not in _RELEASE_ON:
            raise ConfigError("release_on", release_on, " or ".join(map(repr, _RELEASE_ON)))
        given = {"exempt": exempt, "status": status, "retry_after": retry_after}
        given |= {"timeout": timeout, "max_waiting": max_waiting}
        settings, self._source = arguments.settle(limiter, config, given)
        self._app = app
        arguments.check_amount(amount)
        self._amount = amount
        self._exempt = arguments.ExemptPaths(settings.exempt)
        self._timeout, self._max_waiting = settings.timeout, settings.max_waiting
        self._until_response = release_on == "response"
        self._kinds = {"http", "websocket"} if websockets else {"http"}
        self._full, self._unavailable = refusals(settings)
        self._waiting: set[Inbox] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._counts(scope):
            await self._app(scope, receive, send)
            return
        units = arguments.units(self._amount, scope)
        if self._timeout and len(self._waiting) < self._max_waiting:
            await self._wait(units, scope, receive, send)
            return
        answer = self._source.ask_in_flood(units)
        if isinstance(answer, int):
            await refuse(self._full, scope, receive, send)
        else:
            await self._run(answer or await self._admit(units), scope, receive, send)

    def _counts(self, scope: Scope) -> bool:
        if scope["type"] not in self._kinds or _path(scope) in self._exempt:
            return False
        counted: Mapping[str, Permit] | None = scope.get(_COUNTED)
        outer = counted.get(self._source.path) if counted else None
        return outer is None or outer.released

    async def _wait(self, units: Amount, scope: Scope, receive: Receive, send: Send) -> None:
        inbox = Inbox(receive)
        self._waiting.add(inbox)
        try:
            outcome = await unless_left(self._admit(units, self._timeout), inbox)
            self._waiting.discard(inbox)
            if outcome is not None:
                await self._run(outcome, scope, inbox.receive, send)
        finally:
            self._waiting.discard(inbox)
            inbox.close()

    async def _admit(self, units: Amount, timeout: float = 0.0) -> Permit | Refusal:
        try:
            return await self._source.admit_async(units, timeout) or self._unavailable
        except CapExceeded:
            return self._full

    async def _run(self, outcome: Permit | Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        if isinstance(outcome, Refusal):
            await refuse(outcome, scope, receive, send)
            return
        with outcome as permit:
            scope[_COUNTED] = {**scope.get(_COUNTED, {}), self._source.path: permit}
            await self._app(scope, receive, releasing(permit, send) if self._until_response else send)


def _path(scope: Scope) -> str:
    """The path below ``root_path``: servers and mounts of the newer kind leave the prefix in ``path``."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root.rstrip("/")) if root else path
