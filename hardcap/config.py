"""The configuration of a limiter and of a middleware: from arguments, from the environment, from TOML.

Everything is checked here, before any file is touched; `hardcap.settings` says what each setting may be.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hardcap.errors import ConfigError
from hardcap.settings import (
    DEFAULT_RESOURCE,
    OWNER_ONLY,
    RETRY_AFTER,
    SETTINGS,
    Limits,
    Mode,
    RetryAfter,
    check_path,
)

__all__ = ["Config", "Limits", "MiddlewareSettings", "Mode"]

PREFIX = "HARDCAP_"
_KUBERNETES = re.compile(r"(.*_)?(SERVICE_.*|PORT(_.*)?)")  # of a service called hardcap, hardcap-api and so on

Values = dict[str, Any]
Label = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MiddlewareSettings:
    """How a middleware waits and refuses; ``timeout`` and ``retry_after`` in seconds. Checked like `Config`.

    At most ``max_waiting`` requests of a process wait at once. A path in ``exempt`` is exact, or ends in ``/*`` for all
    below it. ``retry_after`` may be a callable.
    """

    timeout: float = 0.0
    max_waiting: int = 1000
    status: int = 503
    retry_after: RetryAfter = RETRY_AFTER
    exempt: tuple[str, ...] = ("/health", "/healthz", "/livez", "/readyz", "/metrics")

    def __post_init__(self) -> None:
        _assign(self, _check_each(_values(self), str))


@dataclass(frozen=True, slots=True)
class Config:
    """The arguments of `hardcap.open`, checked: a `ConfigError` names the value and what is allowed.

    ``None`` stands for an argument that was not given. ``limits`` maps each resource to its limit in units, in order,
    and cannot be changed; ``limit=n`` sets it to ``{"requests": n}``. ``directory`` is kept as it came: `open` makes it
    absolute. ``middleware`` is for the middlewares alone. Hashable and picklable. To `dataclasses.replace` a ``limit``
    by ``limits`` or the other way round, set the other one to ``None``.

    >>> config = hardcap.Config("web", limit=2, mode="approximate")
    >>> config.limits
    {'requests': 2}
    >>> limiter = hardcap.open(config)
    """

    name: str
    limit: int | None = None
    limits: Mapping[str, int] | None = None
    mode: Mode | str | None = None
    max_processes: int | None = None
    directory: str | os.PathLike[str] | None = None
    permissions: int | None = None
    backend: str | None = None
    enforce: bool | None = None
    middleware: MiddlewareSettings = field(default_factory=MiddlewareSettings)

    def __post_init__(self) -> None:
        if not isinstance(self.middleware, MiddlewareSettings):
            raise ConfigError("middleware", self.middleware, "MiddlewareSettings")
        _assign(self, _check_config(_values(self), str))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ, prefix: str = PREFIX) -> Config:
        """The configuration in ``HARDCAP_NAME``, ``HARDCAP_LIMIT`` and so on, those of the middlewares too.

        ``HARDCAP_CONFIG`` names a TOML file, which the other variables override. An unknown variable with this prefix
        is a `ConfigError`; those that Kubernetes sets for a service called ``hardcap`` or ``hardcap-api``
        (``HARDCAP_SERVICE_HOST``, ``HARDCAP_API_PORT``) are left alone.

        >>> hardcap.Config.from_env({"HARDCAP_NAME": "web", "HARDCAP_LIMIT": "requests=10,tokens=8192"}).limits
        {'requests': 10, 'tokens': 8192}
        """
        return cls(**_check_all(*_read_environment(environ, prefix)))

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Config:
        r"""The configuration in table ``[hardcap]`` of a file, or ``[tool.hardcap]`` of a ``pyproject.toml``.

        >>> with open("hardcap.toml", "w") as file:
        ...     print("[hardcap]", "name = 'web'", "limit = 10", sep="\n", file=file)
        >>> hardcap.Config.from_toml("hardcap.toml").limit
        10
        """
        return cls(**_check_all(*_read_toml(path)))


# --- rules -----------------------------------------------------------------------------------------------------------


def _check_each(values: Values, label: Label) -> Values:
    return {key: SETTINGS[key].check(label(key), value) for key, value in values.items()}


def _check_config(values: Values, label: Label) -> Values:
    """The values that were given, each in its normal form; they also fit together."""
    given = {"name": None} | {key: value for key, value in values.items() if value is not None}
    if "limit" in given and _restated(given.get("limits")):
        del given["limits"]
    if "limit" in given and "limits" in given:
        raise ConfigError(label("limit"), given["limit"], f"only one of limit and {label('limits')}")
    given = _check_each(given, label)
    if given.get("permissions", OWNER_ONLY) != OWNER_ONLY and "directory" not in given:
        allowed = f"{oct(OWNER_ONLY)}, or more with {label('directory')} given"
        raise ConfigError(label("permissions"), oct(given["permissions"]), allowed)
    if "limit" in given:
        given["limits"] = Limits({DEFAULT_RESOURCE: given["limit"]})
    return given


def _check_all(values: Values, label: Label) -> Values:
    """What a file or the environment holds, as the fields of a `Config`."""
    given = _check_config(_of(Config, values), label)
    return given | {"middleware": MiddlewareSettings(**_check_each(_of(MiddlewareSettings, values), label))}


def _restated(limits: object) -> bool:
    """Whether these limits are the ones that a ``limit`` stands for, handed back by `dataclasses.replace`."""
    return isinstance(limits, Limits) and tuple(limits) == (DEFAULT_RESOURCE,)


def _values(settings: Any) -> Values:
    return {one.name: getattr(settings, one.name) for one in fields(settings) if one.name in SETTINGS}


def _of(cls: Any, values: Values) -> Values:
    return {one.name: values[one.name] for one in fields(cls) if one.name in values}


def _assign(settings: object, values: Values) -> None:
    for key, value in values.items():
        object.__setattr__(settings, key, value)


# --- the environment and files: the values found, and what to call each in an error -----------------------------------


def _read_environment(environ: Mapping[str, str], prefix: str) -> tuple[Values, Label]:
    texts = _variables(environ, prefix)
    values: Values = {}
    labels = {key: prefix + setting.variable for key, setting in SETTINGS.items()}
    if (path := texts.pop("CONFIG", None)) is not None:
        values, label = _read_toml(path)
        labels |= {key: label(key) for key in values}
    keys = {setting.variable: key for key, setting in SETTINGS.items()}
    for variable, text in texts.items():
        _override(values, keys[variable], text)
        labels |= {key: prefix + variable for key in SETTINGS if SETTINGS[key].variable == variable}
    return values, labels.__getitem__


def _override(values: Values, key: str, text: str) -> None:
    value = SETTINGS[key].parse(text)
    if key == "limit":  # one variable for two keys: it replaces both
        values.pop("limits", None)
        values.pop("limit", None)
        key = "limits" if isinstance(value, Mapping) else "limit"
    values[key] = value


def _variables(environ: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The text of each of our variables, by its name without the prefix."""
    texts = {name.removeprefix(prefix): text for name, text in environ.items() if name.startswith(prefix)}
    texts = {name: text for name, text in texts.items() if not _KUBERNETES.fullmatch(name)}
    spellings = {"config": "CONFIG"} | {key: setting.variable for key, setting in SETTINGS.items()}
    spellings |= {name.lower(): name for name in spellings.values()}
    _refuse_unknown("environment variable", texts, spellings, prefix)
    for name, text in texts.items():
        if not text:
            raise ConfigError(prefix + name, text, "a value that is not empty, or no such variable")
    return texts


def _read_toml(path: str | os.PathLike[str]) -> tuple[Values, Label]:
    file = os.fspath(check_path("configuration file", path))
    values = _table(file)
    spellings = {setting.variable.lower(): key for key, setting in SETTINGS.items()} | {key: key for key in SETTINGS}
    _refuse_unknown(f"key in '{file}'", values, spellings)
    return values, lambda key: f"{key} in '{file}'"


def _table(file: str) -> Values:
    header = ["tool", "hardcap"] if os.path.basename(file) == "pyproject.toml" else ["hardcap"]
    node: object = _document(file)
    for part in header:
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        raise ConfigError("configuration file", file, f"a file with a table [{'.'.join(header)}]")
    return node


def _document(file: str) -> Values:
    try:
        with open(file, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError("configuration file", file, f"a readable file: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError("configuration file", file, f"valid TOML: {error}") from error


def _refuse_unknown(what: str, names: Collection[str], spellings: Mapping[str, str], prefix: str = "") -> None:
    """A `ConfigError` unless all names are known. ``spellings`` leads from what somebody may write to what is known."""
    known = dict.fromkeys(spellings.values())
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    close = [hint for name in unknown for hint in difflib.get_close_matches(name.lower(), spellings, n=1)]
    allowed = ", ".join(prefix + name for name in known)
    if close:
        allowed += f"; did you mean {', '.join(prefix + spellings[hint] for hint in close)}"
    raise ConfigError(what, ", ".join(prefix + name for name in unknown), allowed)
