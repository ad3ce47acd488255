"""How figures are printed: tables that fit in 100 columns, durations with a unit, and what became of a goal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.comparison import Goal
from bench.ratios import Ratio

WIDTH: Final = 100  # where the terminal does not say
GOALS_NOTE: Final = "ratio: median over rounds, each against the same round; of least: shortest pair to shortest pair"


def console() -> Console:
    """Stdout."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def table(title: str, *figures: str) -> Table:
    """A table for one column of names, set to the left, and ``figures``, set to the right."""
    made = bare_table(title)
    made.add_column("", no_wrap=True)
    for heading in figures:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def bare_table(title: str) -> Table:
    """A table without columns."""
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def goals(ratios: Sequence[Ratio]) -> Table:
    """What each ratio is, and whether it is what it should be."""
    made = table("Goals", "one", "other", "ratio", "of least", "at most", "")
    for ratio in ratios:
        durations = duration(ratio.own_ns), duration(ratio.other_ns)
        figures = number(ratio.observed), number(ratio.of_least), f"{ratio.allowed:g}"
        made.add_row(ratio.name, *durations, *figures, verdict(ratio.goal.met))
    return made


def goal_line(goal: Goal) -> str:
    """A goal that no ratio stands behind."""
    return (
        f"{verdict(goal.met)}: {goal.name}: {goal.observed:.3g} {goal.unit}, goal at most {goal.allowed:g} {goal.unit}"
    )


def verdict(met: bool) -> str:
    """Met or missed, in its colour."""
    return "[green]met[/]" if met else "[bold red]missed[/]"


def duration(nanoseconds: float) -> str:
    """Three digits or more, and a unit."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= scale:
            value = nanoseconds / scale
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{nanoseconds:.0f} ns"


def number(value: float) -> str:
    """Three digits that count, and all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
