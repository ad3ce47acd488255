"""Arguments for reserve, release and admit: sensible ones, and whatever else can be written down."""

from __future__ import annotations

import enum
import math
from random import Random
from typing import Any, Final, NamedTuple

KEYWORDS: Final = ("headroom", "timeout")


class Two(enum.IntEnum):
    two = 2


class Text(str):
    """Another key than the text it is, to a dictionary."""

    __slots__ = ()

    def __hash__(self) -> int:
        return str.__hash__(self) ^ 1

    def __eq__(self, other: object) -> bool:
        return self is other


class Arguments(NamedTuple):
    """What a call is made with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        return ", ".join([*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())])


NUMBERS: Final = (0, -1, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64, 2**64 + 1, -(2**63), 10**30)
FLOATS: Final = (0.0, 1.0, math.nan, math.inf)
NO_TIME: Final = (0, 0.0, -0.0, -1, -1e-9, math.nan, math.inf, True, "1", (), object())  # whoever waited would hang
OTHERS: Final[tuple[object, ...]] = (True, False, None, "1", b"1", (), (1,), (1, 2), [1], {}, Two.two, object(), int)


def sensible(rng: Random, resources: tuple[str, ...], call: str) -> Arguments:
    """Small amounts, in any of the ways to give them."""
    kwargs: dict[str, Any] = {}
    args: tuple[int, ...] = ()
    if rng.random() < 0.5:
        args = (rng.randint(1, 3),) if rng.random() < 0.5 else ()
        names = resources[1:] if args else resources
        kwargs = {name: rng.randint(0, 3) for name in rng.sample(names, rng.randint(0, len(names)))}
    if call in ("reserve", "admit") and rng.random() < 0.2:
        kwargs["headroom"] = rng.randint(0, 3)
    return Arguments(args, kwargs)


def wild(rng: Random, resources: tuple[str, ...]) -> Arguments:
    """Values and names of every kind, in any number and order; now and then one object several times."""
    values = [rng.choice((1, 2, 3, *NUMBERS, *FLOATS, *OTHERS)) for _ in range(rng.randint(1, 3))]
    names = [*resources, *KEYWORDS, "amount", "limit", "Requests", "", "self", "ä", "x" * 300]
    chosen = rng.sample(names, rng.randint(0, 5))
    args = tuple(rng.choice(values) for _ in range(rng.choice((0, 0, 0, 1, 1, 2))))
    kwargs = {name: rng.choice(NO_TIME if name == "timeout" else values) for name in chosen}
    return Arguments(args, {_key(rng, name): value for name, value in kwargs.items()})


def _key(rng: Random, name: str) -> str:
    return Text(name) if rng.random() < 0.05 else name
