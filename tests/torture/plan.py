"""What a storm is made of."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hardcap import Mode, extension

WORKERS: Final = 8
MOST: Final = 3  # units of one resource asked for at once
BACKENDS: Final = ("native", "atomics") if extension.native is not None else ("atomics",)


@dataclass(frozen=True)
class Plan:
    """One kind of storm. ``pause`` is in seconds: at most so long between reservations, and inside them."""

    title: str
    limits: Mapping[str, int] = field(default_factory=lambda: {"requests": 10})
    mode: Mode = Mode.strict
    pause: float = 0.002
    capped: bool = True
    forks: bool = True
    backends: Sequence[str] = BACKENDS  # by turns

    @property
    def excess(self) -> int:
        """What may be in flight beyond the limit. A killed worker's units count no longer, so W is the workers."""
        return (WORKERS - 1) * MOST if self.mode == Mode.approximate else 0

    def amounts(self, chance: random.Random) -> tuple[int, ...]:
        """Some of the first resource, and of each other some or nothing."""
        return tuple(chance.randint(not index, MOST) for index in range(len(self.limits)))


THREE: Final = {"requests": 10, "tokens": 12, "adapters": 9}

PLANS: Final = (
    Plan("strict"),
    Plan("strict, three resources", THREE),
    Plan("approximate", THREE, Mode.approximate, forks=False),  # W is known
    Plan("strict, no pauses", {"requests": 4}, pause=0.0),
)
