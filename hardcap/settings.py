"""What each setting may be, as a value and as text: one row a setting, and no rule anywhere else.

A check takes the name to show in an error and a value, and returns the value in its normal form or raises
`ConfigError`. A parser takes text and returns a value, or the text itself where it makes no sense, so that the
check can refuse it in its own words.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from hardcap.errors import ConfigError
from hardcap.layout import MAX_LIMIT, MAX_RESOURCES, MAX_SLOTS

DEFAULT_RESOURCE: Final = "requests"
BACKENDS: Final = ("auto", "native", "atomics")
OWNER_ONLY: Final = 0o600
READ_WRITE: Final = 0o666
RETRY_AFTER: Final = 1.0  # seconds

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
RESOURCE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_KEYWORDS: Final = ("amount", "headroom", "timeout")  # of reserve and admit, so no resource can be called that
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_OCTAL: Final = re.compile(r"(0o?)?[0-7]{1,6}")
_DECIMAL_SLIPS: Final = (600, 604, 606, 640, 644, 646, 660, 664, 666)  # octal, written without 0o
_SECONDS: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_BOOLEANS: Final = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)

Check = Callable[[str, Any], Any]
Parser = Callable[[str], object]
RetryAfter = float | Callable[[], float]  # seconds


class Mode(StrEnum):
    """How a limiter decides.

    ``strict``: never more than ``limit`` units in flight. ``approximate``: at most ``limit + (W - 1) * a``, with W
    attached limiters (one a process as a rule) and a the largest amount reserved at once.

    >>> limiter = hardcap.open("web", limit=2, mode=hardcap.Mode.approximate)  # or mode="approximate"
    >>> limiter.mode == "approximate"
    True
    """

    strict = "strict"
    approximate = "approximate"


class Limits(Mapping[str, int]):
    """The limit of each resource, in order: immutable, hashable, picklable.

    Equal to another `Limits` in the same order, since the order of resources is part of a segment's shape, and to any
    other mapping with the same items.
    """

    __slots__ = ("_pairs",)

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._pairs = tuple(limits.items())

    def __getitem__(self, resource: str) -> int:
        for name, limit in self._pairs:
            if name == resource:
                return limit
        raise KeyError(resource)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        return self._pairs == other._pairs if isinstance(other, Limits) else super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[Limits], tuple[dict[str, int]]]:
        return Limits, (dict(self._pairs),)


# --- checks ----------------------------------------------------------------------------------------------------------


def check_integer(key: str, value: object, low: int, high: int, otherwise: str = "") -> int:
    """``value`` as an int from ``low`` to ``high``, else `ConfigError`. A bool or a float is none."""
    number = _plain(value)
    if number is not None and low <= number <= high:
        return number
    raise ConfigError(key, value, f"an integer from {low} to {high}{otherwise}")


def check_resource(key: str, value: object) -> str:
    """``value`` as the name of a resource, else `ConfigError`."""
    if isinstance(value, str) and RESOURCE.fullmatch(value) and value not in _KEYWORDS:
        return value
    allowed = f"1-32 of [a-z0-9_], starting with a letter, none of {', '.join(_KEYWORDS)}"
    raise ConfigError(key, value, allowed)


def check_limits(key: str, value: object) -> Limits:
    """``value`` as a mapping from 1 to 4 resources to their limits, else `ConfigError`."""
    if not isinstance(value, Mapping) or not 1 <= len(value) <= MAX_RESOURCES:
        raise ConfigError(key, value, f"1 to {MAX_RESOURCES} resources, such as {{'requests': 10, 'tokens': 8192}}")
    names = [check_resource(f"resource name in {key}", name) for name in value]
    return Limits({name: check_integer(f"{key}[{name!r}]", value[name], 0, MAX_LIMIT) for name in names})


def check_path(key: str, value: Any) -> Any:
    """``value`` as it came, if it is a path in text, else `ConfigError`."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(path, str) and path and "\0" not in path:
        return value
    raise ConfigError(key, value, "a path")


def check_seconds(key: str, value: object, otherwise: str = "") -> float:
    """``value`` as seconds, 0 or more, else `ConfigError`. A bool is none."""
    # Compared with the largest float, not infinity: an int may be larger than any float.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max:
        return float(value)
    raise ConfigError(key, value, f"seconds, 0 or more, finite{otherwise}")


def _check_name(key: str, value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ConfigError(key, value, "1-64 of [A-Za-z0-9._-], not starting with a dot or dash")


def _check_limit(key: str, value: object) -> int:
    otherwise = ", or for each resource its limit, such as requests=10,tokens=8192"
    return check_integer(key, value, 0, MAX_LIMIT, otherwise)


def _check_processes(key: str, value: object) -> int:
    return check_integer(key, value, 1, MAX_SLOTS)


def _check_permissions(key: str, value: object) -> int:
    number = _plain(value)
    if number is not None and number & OWNER_ONLY == OWNER_ONLY and not number & ~READ_WRITE:
        return number
    allowed = "octal 600 to 666, read and write bits only, always the owner's"
    if number in _DECIMAL_SLIPS:
        raise ConfigError(key, number, f"{allowed}: write 0o{number}")
    raise ConfigError(key, value if number is None else oct(number), allowed)


def _check_boolean(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigError(key, value, "true or false (in the environment also 1, 0, yes, no, on, off)")


def _check_retry_after(key: str, value: object) -> RetryAfter:
    return value if callable(value) else check_seconds(key, value, ", or a callable that returns them")


def _check_waiting(key: str, value: object) -> int:
    return check_integer(key, value, 0, MAX_LIMIT)


def _check_status(key: str, value: object) -> int:
    number = _plain(value)
    if number in (503, 429):
        return number
    raise ConfigError(key, value, "503 or 429")


def _check_exempt(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
        raise ConfigError(key, value, "a list of paths")
    for path in value:
        if not (isinstance(path, str) and path.startswith("/") and path.isprintable()):
            raise ConfigError(f"path in {key}", path, "text that starts with '/' and is printable")
        if "*" in path.removesuffix("/*"):
            raise ConfigError(f"path in {key}", path, "'*' only as the whole last part, for all below: '/static/*'")
    return tuple(value)


def _one_of(*choices: str) -> Check:
    def check(key: str, value: object) -> str:
        for choice in choices:
            if isinstance(value, str) and value == choice:
                return choice
        raise ConfigError(key, value, ", ".join(choices))

    return check


def _plain(value: object) -> int | None:
    """The number that an int is, whatever a subclass says of it. None for a bool, and for what is no int."""
    return int.__index__(value) if isinstance(value, int) and not isinstance(value, bool) else None


# --- parsers ---------------------------------------------------------------------------------------------------------


def _parse_integer(text: str) -> object:
    return int(text) if _DECIMAL.fullmatch(text) else text


def _parse_limit(text: str) -> object:
    pairs = [part.partition("=") for part in text.split(",")]
    limits = {name: _parse_integer(number) for name, _, number in pairs}
    distinct = len(limits) == len(pairs)
    return limits if "=" in text and distinct else _parse_integer(text)


def _parse_octal(text: str) -> object:
    return int(text, 8) if _OCTAL.fullmatch(text) else text


def _parse_boolean(text: str) -> object:
    return _BOOLEANS.get(text.lower(), text)


def _parse_seconds(text: str) -> object:
    return float(text) if _SECONDS.fullmatch(text) else text


def _parse_paths(text: str) -> object:
    return text.split(",")


# --- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its environment variable without the prefix, its check, and how its text is read."""

    variable: str
    check: Check
    parse: Parser = str


SETTINGS: Final = {
    "name": Setting("NAME", _check_name),
    "limits": Setting("LIMIT", check_limits, _parse_limit),
    "limit": Setting("LIMIT", _check_limit, _parse_limit),
    "mode": Setting("MODE", _one_of(*Mode)),
    "max_processes": Setting("MAX_PROCESSES", _check_processes, _parse_integer),
    "directory": Setting("DIR", check_path),
    "permissions": Setting("PERMISSIONS", _check_permissions, _parse_octal),
    "backend": Setting("BACKEND", _one_of(*BACKENDS)),
    "enforce": Setting("ENFORCE", _check_boolean, _parse_boolean),
    "timeout": Setting("TIMEOUT", check_seconds, _parse_seconds),
    "max_waiting": Setting("MAX_WAITING", _check_waiting, _parse_integer),
    "status": Setting("STATUS", _check_status, _parse_integer),
    "retry_after": Setting("RETRY_AFTER", _check_retry_after, _parse_seconds),
    "exempt": Setting("EXEMPT", _check_exempt, _parse_paths),
}
