"""The arguments that both middlewares take, checked, with the configuration's settings where they are not given."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hardcap import settings
from hardcap.config import Config, MiddlewareSettings
from hardcap.errors import ConfigError
from hardcap.limiter import Limiter
from hardcap.source import Amount, Source


class _Unset:
    """Marks the default of an argument: a configuration, where there is one, goes before it."""


class _Int(_Unset, int): ...


class _Float(_Unset, float): ...


class _Paths(_Unset, tuple[str, ...]): ...


_DEFAULTS: Final = MiddlewareSettings()
EXEMPT: Final = _Paths(_DEFAULTS.exempt)
STATUS: Final = _Int(_DEFAULTS.status)
RETRY_AFTER: Final = _Float(settings.RETRY_AFTER)
TIMEOUT: Final = _Float(_DEFAULTS.timeout)
MAX_WAITING: Final = _Int(_DEFAULTS.max_waiting)


def settle(
    limiter: Limiter | None, config: Config | None, given: Mapping[str, Any]
) -> tuple[MiddlewareSettings, Source]:
    """How to refuse, and whom to ask: the environment is read where there is neither a limiter nor a config."""
    _check(limiter, config)
    if limiter is None and config is None:
        config = Config.from_env()
    base = config.middleware if config else _DEFAULTS
    arguments = {key: value for key, value in given.items() if not isinstance(value, _Unset)}
    return dataclasses.replace(base, **arguments), Source(limiter, config)


def _check(limiter: object, config: object) -> None:
    if not isinstance(limiter, Limiter | None):
        raise ConfigError("limiter", limiter, "a Limiter, as hardcap.open returns it")
    if not isinstance(config, Config | None):
        raise ConfigError("config", config, "a Config")
    if limiter and config:
        raise ConfigError("config", config, "a limiter or a config, not both")


class ExemptPaths:
    """Exact paths, each with a trailing slash and without, and all below one that ends in ``/*``."""

    def __init__(self, paths: Collection[str]) -> None:
        exact = {path.rstrip("/") for path in paths if not path.endswith("/*")}
        self._exact = exact | {f"{path}/" for path in exact}
        self._below = tuple(path.removesuffix("*") for path in paths if path.endswith("/*"))

    def __contains__(self, path: str) -> bool:
        return path in self._exact or path.startswith(self._below)


def check_amount(amount: object) -> None:
    """:class:`ConfigError` unless it can be asked for what a request takes."""
    if inspect.iscoroutinefunction(amount) or not (amount is None or callable(amount)):
        raise ConfigError("amount", amount, "a callable on the request's scope or environ, not async, or None")


def units(amount: Callable[[Any], Amount] | None, request: Any) -> Amount:
    """What a request asks for."""
    if amount is None:
        return 1
    wanted = amount(request)
    if not wanted or not isinstance(wanted, int | Mapping):
        raise ConfigError("amount", wanted, "a number of units, or units by resource, at least one")
    if isinstance(wanted, Mapping):
        for name in wanted:  # no argument of admit's among them
            settings.check_resource("resource name in amount", name)
    return wanted
