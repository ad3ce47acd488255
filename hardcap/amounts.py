"""What a caller asks for: amounts by position and by name, checked, as pairs of resource index and units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from hardcap.config import check_integer
from hardcap.layout import MAX_AMOUNT, MAX_LIMIT

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
        raise ValueError(f"amounts are {amounts}, allowed: at least one from 1 to {MAX_AMOUNT}")
    return found


def given(names: tuple[str, ...], amount: int, amounts: dict[str, int]) -> Wanted:
    """The amounts that a call names, 0 too; one unit where it names none."""
    if not amounts:
        return ((0, check_integer("amount", amount, 1, MAX_AMOUNT)),)
    if amount is not ONE:
        check_integer("amount", amount, 1, MAX_AMOUNT)
        if names[0] in amounts:
            raise ValueError(f"{names[0]} is given by position and by name, allowed: one of them")
        amounts = {names[0]: amount, **amounts}
    checked = {index_of(names, name): check_integer(name, units, 0, MAX_AMOUNT) for name, units in amounts.items()}
    return tuple(checked.items())


def index_of(names: tuple[str, ...], name: str) -> int:
    """The index of a resource. Raises ``ValueError`` that names those there are."""
    if name not in names:
        if name in _ELSEWHERE:
            raise ValueError(f"{name!r} is no argument of this call, allowed: in {_ELSEWHERE[name]}")
        raise ValueError(f"resource is {name!r}, allowed: {', '.join(names)}")
    return names.index(name)


def check_headroom(headroom: int) -> int:
    """Units to be left free: 0 to 2**31 - 1."""
    return check_integer("headroom", headroom, 0, MAX_AMOUNT)


def check_timeout(timeout: float | None) -> float | None:
    """Seconds from 0, or None: for ever."""
    if timeout is not None:
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not number or not 0 <= timeout < math.inf:
            raise ValueError(f"timeout is {timeout!r}, allowed: seconds from 0, or None")
    return timeout


def limits_by_index(names: tuple[str, ...], limits: Mapping[str, int]) -> dict[int, int]:
    """New limits by resource index. `ConfigError` for one that is no integer from 0 to 2**31 - 1."""
    return {index_of(names, name): check_integer(name, limit, 0, MAX_LIMIT) for name, limit in limits.items()}


def merged(before: Wanted, changes: Wanted) -> Wanted:
    """Amounts with some of them replaced. Raises ``ValueError`` if nothing would be left."""
    found = {**dict(before), **dict(changes)}
    if not any(found.values()):
        raise ValueError("nothing would be held, allowed: at least one amount from 1, or release")
    return tuple((index, units) for index, units in found.items() if units)


def difference(more: Wanted, less: Wanted) -> Wanted:
    """What is in the one beyond the other."""
    other = dict(less)
    beyond = ((index, units - other.get(index, 0)) for index, units in more)
    return tuple((index, units) for index, units in beyond if units > 0)
