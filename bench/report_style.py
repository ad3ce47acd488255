"""How all pictures look: colours that everybody can tell apart, words beside what they name, the source beneath."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from bench import machine

# From the palette of Okabe and Ito, told apart with any colour vision.
STRICT: Final = "#0072B2"
APPROXIMATE: Final = "#D55E00"
OTHER: Final = "#CC79A7"
INK: Final = "#222222"
FAINT: Final = "#8A8A8A"

WIDTH: Final = 9.0  # inches
HEIGHT: Final = 4.6
PIXELS_PER_INCH: Final = 144

_STYLE: Final[dict[Any, Any]] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.family": "DejaVu Sans",  # comes with the library: the same everywhere
    "font.size": 11,
    "svg.fonttype": "path",
    "svg.hashsalt": "hardcap",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def picture(title: str, source: str, path: Path, columns: int = 1) -> Iterator[list[Axes]]:
    """Axes side by side to draw on; written as ``path`` with ``.svg`` and ``.png`` in the end."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of a font cache that it builds
    with matplotlib.rc_context(_STYLE):
        room = ConstrainedLayoutEngine(rect=(0.01, 0.09, 0.98, 0.9))  # beneath it stands the source
        figure = Figure(figsize=(WIDTH, HEIGHT), layout=room)
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.015, ha="left", fontsize=13, fontweight="bold")
        figure.text(0.015, 0.015, source, fontsize=7.5, color=FAINT, va="bottom", linespacing=1.5)
        yield list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
        unsigned = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(path.with_suffix(".svg"), metadata=unsigned)
        figure.savefig(path.with_suffix(".png"), dpi=PIXELS_PER_INCH)


def source(where: machine.Machine, command: str) -> str:
    """What a picture stands on: machine and commit, and the command that measured it."""
    return f"{machine.line(where)}\n{command}"


def colour(name: str) -> str:
    """Of a subject; what is not hardcap is grey."""
    modes = {"strict": STRICT, "hardcap": STRICT, "approximate": APPROXIMATE, "semaphore": OTHER, "per-process": OTHER}
    return modes.get(name.partition("/")[0], FAINT)


def stroke(name: str) -> str:
    """Solid, but dashed on the portable backend."""
    return "--" if name.endswith("/atomics") else "-"


def limit_line(axes: Axes, limit: float, label: str = "") -> None:
    """The limit, across everything."""
    axes.axhline(limit, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
    if label:
        axes.annotate(label, (0.01, limit), (0, 4), xycoords=axes.get_yaxis_transform(), textcoords="offset points")


def lines(axes: Axes, curves: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Curves on two logarithmic axes, each with its name at its right end."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), stroke(name), marker="o", markersize=4, color=colour(name))
    label_ends(axes, {name: points[-1] for name, points in curves.items()})
    ticks = sorted({x for points in curves.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """Names right of the ends, moved apart where they would cover each other."""
    low, high = (math.log10(value) for value in axes.get_ylim())
    right = max(x for x, _ in ends.values())
    names = sorted(ends, key=lambda name: ends[name][1])
    places = apart([math.log10(ends[name][1]) for name in names], (high - low) / 17)
    for name, place in zip(names, places, strict=True):
        axes.annotate(
            name, (right, 10**place), (8, 0), textcoords="offset points", va="center", color=colour(name), fontsize=9.5
        )


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places, moved as little as it takes to be ``gap`` apart, and around the same centre."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    shift = sum(new - old for new, old in zip(moved, places, strict=True)) / max(len(moved), 1)
    return [place - shift / 2 for place in moved]


def steps(axes: Axes, points: Iterable[tuple[float, float]], until: float, name: str) -> None:
    """A line that stays where it is until it changes, filled below."""
    seconds, values = zip(*points, strict=True)
    seconds, values = (*seconds, until), (*values, values[-1])
    axes.step(seconds, values, where="post", color=colour(name), linewidth=0.9)
    axes.fill_between(seconds, values, step="post", color=colour(name), alpha=0.15, linewidth=0)
