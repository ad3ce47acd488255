"""What the middlewares of all servers share: their arguments, which requests count, for how much, under which cap."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from hardcap import settings
from hardcap.config import Config, MiddlewareSettings
from hardcap.errors import ConfigError
from hardcap.limiter import Limiter
from hardcap.opening import path_of
from hardcap.refusal import Refusal
from hardcap.source import Amount, Source

Request = TypeVar("Request")


class Unset:
    """Marks the default of an argument: the environment, when it is read, goes before it."""


class UnsetInt(Unset, int): ...


class UnsetFloat(Unset, float): ...


class UnsetPaths(Unset, tuple[str, ...]): ...


_DEFAULTS: Final = MiddlewareSettings()
EXEMPT: Final = UnsetPaths(_DEFAULTS.exempt)
STATUS: Final = UnsetInt(_DEFAULTS.status)
RETRY_AFTER: Final = UnsetFloat(settings.RETRY_AFTER)
TIMEOUT: Final = UnsetFloat(_DEFAULTS.timeout)
MAX_WAITING: Final = UnsetInt(_DEFAULTS.max_waiting)


class Gate(Generic[Request]):
    """In front of one application. ``Request`` is what ``amount`` is called with.

    With neither a limiter nor a config all comes from the environment, and ``arguments`` that are not `Unset` go before
    it; else the environment is not read. Raises ``ConfigError``. ``path`` is the segment's file: who the cap is.
    """

    def __init__(
        self,
        limiter: Limiter | None,
        config: Config | None,
        amount: Callable[[Request], Amount] | None,
        **arguments: Any,
    ) -> None:
        _check(limiter, config)
        given = config if limiter is None else limiter
        self.settings = _settings(given is None, arguments)
        self._amount = amount
        given = Config.from_env() if given is None else given
        self.path = path_of(given)
        self.source = Source(given)
        exempt = self.settings.exempt
        exact = {path.rstrip("/") for path in exempt if not path.endswith("/*")}
        self._exact = exact | {f"{path}/" for path in exact}
        self._below = tuple(path.removesuffix("*") for path in exempt if path.endswith("/*"))
        retry_after = self.settings.retry_after
        self.full = Refusal(self.settings.status, retry_after, "overloaded", "too many requests in flight")
        self.unavailable = Refusal(503, retry_after, "unavailable", "admission control is unavailable")

    def exempts(self, path: str) -> bool:
        """Whether a path, below the place where the application is mounted, is neither counted nor refused.

        Exact ones may have a slash at their end or not; ``/static/*`` are all that begin with ``/static/``.
        """
        return path in self._exact or path.startswith(self._below)

    def units(self, request: Request) -> Amount:
        """What a request asks for. What ``amount`` raises goes to the server, and nothing is counted."""
        amount = 1 if self._amount is None else self._amount(request)
        if amount == {}:
            raise ConfigError("amount", amount, "a number of units, or units by resource, at least one")
        return amount


def _check(limiter: object, config: object) -> None:
    if not isinstance(limiter, Limiter | None):
        raise ConfigError("limiter", limiter, "a Limiter, as hardcap.open returns it")
    if not isinstance(config, Config | None):
        raise ConfigError("config", config, "a Config")
    if limiter is not None and config is not None:
        raise ConfigError("config", config, "a limiter or a config, not both")


def _settings(from_env: bool, arguments: dict[str, Any]) -> MiddlewareSettings:
    base = MiddlewareSettings.from_env() if from_env else _DEFAULTS
    return dataclasses.replace(base, **{key: value for key, value in arguments.items() if not isinstance(value, Unset)})
