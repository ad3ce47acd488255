"""How subjects take turns, and how that is told while it goes on."""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[str], None]


def rotated(count: int, turn: int) -> list[int]:
    """Another one first in each turn."""
    return [(turn + index) % count for index in range(count)]
