"""Admission for WSGI applications: one request, one reservation, given back once.

A request is counted before the application is called, and until the server closes the iterable that it returned, or it
raises. That iterable is iterated by the server itself: nothing of ours stands between the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from hardcap import arguments
from hardcap.config import Config
from hardcap.errors import CapExceeded
from hardcap.limiter import Limiter
from hardcap.permit import Permit
from hardcap.refusal import Refusal, refusals
from hardcap.settings import RetryAfter
from hardcap.source import Amount

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]

__all__ = ["HardcapMiddleware"]

_COUNTED: Final = "hardcap.counted"  # in the environ: the segments that this request is counted in


class HardcapMiddleware:
    """Counts requests against the shared cap, and refuses what is over it before the application is called.

    The unit is held until the server closes the response, and given back once, whatever raises on the way. What
    ``wsgi.file_wrapper`` made is handed on as it is, so the server may send the file itself.

    Given only the application, everything comes from the environment: see ``Config.from_env``. Bad configuration
    raises ``ConfigError`` here. The segment is attached to at the first request that counts; while that fails, every
    request is answered 503, the reason is logged, and it is tried again each second. Nothing ever runs uncapped.

    ``limiter`` is used as it is, and stays the caller's to close; or ``config`` says what to open, and how to refuse
    if it came from a file or the environment. With either, the environment is not read; the arguments go before
    all. When the segment is retired (``unlink --force``), the middleware opens a new one of that name, with the
    same configuration, and goes on with that.

    ``amount`` is called with the environ, and returns the units of the first resource or a mapping of resource to
    units; 1 without it. What it raises goes to the server, and nothing is counted.
    ``exempt`` are paths, below ``SCRIPT_NAME``, that are neither counted nor refused: exact ones (a trailing slash is
    tolerated), and ``/static/*`` for all that begin with ``/static/``.
    ``status`` and ``retry_after`` are those of a refusal: seconds, rounded up in the header, 0 allowed, or a callable
    without arguments that returns them.
    ``timeout`` is how many seconds a request may wait for room, in its thread; 0: not at all.
    A request that passes several middlewares of one segment is counted by the outermost.

    >>> from hardcap.wsgi import HardcapMiddleware
    >>> def app(environ, start_response):
    ...     start_response("200 OK", [("Content-Type", "text/plain")])
    ...     return [b"done"]
    >>> app = HardcapMiddleware(app, config=hardcap.Config("web", limit=10), timeout=0.2)
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter | None = None,
        *,
        config: Config | None = None,
        amount: Callable[[Environ], Amount] | None = None,
        exempt: Collection[str] = arguments.EXEMPT,
        status: int = arguments.STATUS,
        retry_after: RetryAfter = arguments.RETRY_AFTER,
        timeout: float = arguments.TIMEOUT,
    ) -> None:
        given = {"exempt": exempt, "status": status, "retry_after": retry_after, "timeout": timeout}
        settings, self._source = arguments.settle(limiter, config, given)
        self._app = app
        arguments.check_amount(amount)
        self._amount = amount
        self._timeout = settings.timeout
        self._exempt = arguments.ExemptPaths([_native(path) for path in settings.exempt])
        self._full, self._unavailable = refusals(settings)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        counted = environ.get(_COUNTED, frozenset())
        if environ.get("PATH_INFO", "") in self._exempt or self._source.path in counted:
            return self._app(environ, start_response)
        try:
            permit = self._source.admit(arguments.units(self._amount, environ), self._timeout)
        except CapExceeded:
            return _refuse(self._full, environ, start_response)
        if permit is None:
            return _refuse(self._unavailable, environ, start_response)
        try:
            environ[_COUNTED] = counted | {self._source.path}
            response = self._app(environ, start_response)
            return _releasing(response, permit, environ.get("wsgi.file_wrapper"))
        except BaseException:
            permit.release()
            raise


def _native(path: str) -> str:
    """A path as it stands in an environ: bytes in the guise of Latin-1."""
    return path.encode().decode("latin-1")


def _refuse(refusal: Refusal, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    headers, body = refusal.answer(environ.get("HTTP_ACCEPT", ""), environ.get("CONTENT_TYPE", ""))
    start_response(f"{refusal.status} {HTTPStatus(refusal.status).phrase}", headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


class _Response:
    """The application's iterable with another ``close``; its iterator is the application's own."""

    def __init__(self, iterable: Iterable[bytes], close: Callable[[], None]) -> None:
        self._iterable = iterable
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._iterable)


class _Sized(_Response):
    """Where the application's has a length: servers tell the length of a response from a single chunk."""

    _iterable: Collection[bytes]

    def __len__(self) -> int:
        return len(self._iterable)


def _releasing(response: Iterable[bytes], permit: Permit, file_wrapper: object) -> Iterable[bytes]:
    """What to give to the server: closing it closes ``response`` and gives the permit back."""
    close_response = getattr(response, "close", None)

    def close() -> None:
        try:
            if close_response is not None:
                close_response()
        finally:
            permit.release()

    if isinstance(file_wrapper, type) and isinstance(response, file_wrapper) and _replace_close(response, close):
        return response
    return (_Sized if hasattr(response, "__len__") else _Response)(response, close)


def _replace_close(response: Any, close: Callable[[], None]) -> bool:
    """Whether it could be done. Servers know their own file wrapper by its class: only the instance will do."""
    try:
        response.close = close
    except AttributeError:  # of a class without room for it
        return False
    return True
