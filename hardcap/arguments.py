"""The arguments that both middlewares take, checked, with the environment where they are not given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from hardcap.config import Config, MiddlewareSettings
from hardcap.errors import ConfigError
from hardcap.limiter import Limiter
from hardcap.source import Amount, Source


class _Unset:
    """Marks the default of an argument: the environment, when it is read, goes before it."""


class _Int(_Unset, int): ...


class _Float(_Unset, float): ...


class _Paths(_Unset, tuple[str, ...]): ...


_DEFAULTS: Final = MiddlewareSettings()
EXEMPT: Final = _Paths(_DEFAULTS.exempt)
STATUS: Final = _Int(_DEFAULTS.status)
RETRY_AFTER: Final = _Float(_DEFAULTS.retry_after)
TIMEOUT: Final = _Float(_DEFAULTS.timeout)


def settle(
    limiter: Limiter | None, config: Config | None, given: Mapping[str, Any]
) -> tuple[MiddlewareSettings, Source]:
    """How to refuse, and whom to ask: the environment is read where there is neither a limiter nor a config."""
    _check(limiter, config)
    from_env = limiter is None and config is None
    base = MiddlewareSettings.from_env() if from_env else _DEFAULTS
    settings = dataclasses.replace(
        base, **{key: value for key, value in given.items() if not isinstance(value, _Unset)}
    )
    if settings.timeout != 0:
        raise NotImplementedError(f"timeout is {settings.timeout!r}, waiting for admission is not there yet: use 0")
    return settings, Source(limiter, Config.from_env() if from_env else config)


def _check(limiter: object, config: object) -> None:
    if not isinstance(limiter, Limiter | None):
        raise ConfigError("limiter", limiter, "a Limiter, as hardcap.open returns it")
    if not isinstance(config, Config | None):
        raise ConfigError("config", config, "a Config")
    if limiter and config:
        raise ConfigError("config", config, "a limiter or a config, not both")


def exempt_paths(settings: MiddlewareSettings) -> frozenset[str]:
    """Each path with a trailing slash and without."""
    paths = {path.rstrip("/") for path in settings.exempt}
    return frozenset(paths | {f"{path}/" for path in paths})


def units(amount: Callable[[Any], Amount] | None, request: Any) -> Amount:
    """What a request asks for."""
    wanted = 1 if amount is None else amount(request)
    if wanted == {}:
        raise ConfigError("amount", wanted, "a number of units, or units by resource, at least one")
    return wanted
