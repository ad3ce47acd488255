"""What a caller asks for: amounts by position and by name, checked, as pairs of resource index and units.

What is none of those is a :class:`ConfigError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hardcap.errors import ConfigError
from hardcap.layout import MAX_AMOUNT, MAX_LIMIT
from hardcap.settings import check_integer, check_seconds

Wanted = tuple[tuple[int, int], ...]  # (resource index, units), each positive, each resource once


class _Default(int):
    """An amount that was not given, to be told from one that was."""


ONE: Final = _Default(1)
SINGLE: Final[Wanted] = ((0, 1),)
_ELSEWHERE: Final = {  # what looks like the name of a resource where it is not taken
    "timeout": "admit and admit_async, which may wait",
    "headroom": "reserve, admit and admit_async",
    "enforce": "hardcap.open",
}


def wanted(names: tuple[str, ...], amount: int, amounts: dict[str, int]) -> Wanted:
    """The amounts asked for. A positional one is of the first resource; by name, those not named are 0."""
    found = tuple((index, units) for index, units in given(names, amount, amounts) if units)
    if not found:
        raise ConfigError("amount", amounts, f"at least one from 1 to {MAX_AMOUNT}")
    return found


def given(names: tuple[str, ...], amount: int, amounts: dict[str, int]) -> Wanted:
    """The amounts that a call names, 0 too; one unit where it names none."""
    if not amounts:
        return ((0, check_integer("amount", amount, 1, MAX_AMOUNT)),)
    if amount is not ONE:
        check_integer("amount", amount, 1, MAX_AMOUNT)
        amounts = with_first(names, amount, amounts)
    checked = {index_of(names, name): check_integer(name, units, 0, MAX_AMOUNT) for name, units in amounts.items()}
    return tuple(checked.items())


def with_first(names: tuple[str, ...], value: int, named: Mapping[str, int]) -> dict[str, int]:
    """What is given by name, and by position for the first resource."""
    if names[0] in named:
        raise ConfigError(names[0], (value, named[names[0]]), "by position or by name, not both")
    return {names[0]: value, **named}


def index_of(names: tuple[str, ...], name: str) -> int:
    """The index of a resource; an error that names those there are."""
    if name not in names:
        if name in _ELSEWHERE:
            raise ConfigError("argument", name, f"in {_ELSEWHERE[name]}")
        raise ConfigError("resource", name, ", ".join(names))
    return names.index(name)


def check_headroom(headroom: int) -> int:
    """Units to be left free: 0 to 2**31 - 1."""
    return check_integer("headroom", headroom, 0, MAX_AMOUNT)


def check_timeout(timeout: float | None) -> float | None:
    """Seconds from 0, or None: for ever."""
    return None if timeout is None else check_seconds("timeout", timeout, ", or None")


def limits_by_index(names: tuple[str, ...], limits: Mapping[str, int]) -> dict[int, int]:
    """New limits by resource index."""
    return {index_of(names, name): check_integer(name, limit, 0, MAX_LIMIT) for name, limit in limits.items()}


def merged(before: Wanted, changes: Wanted) -> Wanted:
    """Amounts with some of them replaced; something must be left."""
    found = {**dict(before), **dict(changes)}
    if not any(found.values()):
        raise ConfigError("adjust", "called with nothing left to hold", "at least one amount from 1, or release")
    return tuple((index, units) for index, units in found.items() if units)


def difference(more: Wanted, less: Wanted) -> Wanted:
    """What is in the one beyond the other."""
    other = dict(less)
    beyond = ((index, units - other.get(index, 0)) for index, units in more)
    return tuple((index, units) for index, units in beyond if units > 0)
