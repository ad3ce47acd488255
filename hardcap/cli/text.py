"""Figures, ages and small pictures in text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"))


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits: ``'3 s'``, ``'12 m'``, ``'5 d'``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def rate(calls: float) -> str:
    """Calls a second, with a digit behind the point while they are few."""
    return f"{calls:.1f}" if 0 < calls < 100 else f"{calls:,.0f}"


def sparkline(values: Sequence[float], top: float, width: int) -> str:
    """The last ``width`` values as bars; ``top`` is a full one, and the least above 0 shows."""
    scale = (len(BARS) - 1) / top if top > 0 else 0.0
    heights = [0 if value <= 0 else max(1, min(len(BARS) - 1, round(value * scale))) for value in values[-width:]]
    return "".join(BARS[height] for height in heights)
