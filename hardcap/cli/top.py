"""``hardcap top``: the segments of a directory, or one, refreshed until a key says to stop."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from hardcap.cli import status, tables
from hardcap.cli.keys import Keys
from hardcap.cli.samples import Sample, Watch

History = Sequence[Sample]

ORDERS: Final[dict[str, Callable[[History], Any]]] = {
    "name": lambda history: history[-1].snapshot.name,
    "in flight": lambda history: -history[-1].snapshot.resources[0].in_flight,
    "refused": lambda history: -sum(history[-1].rejected.values()),
    "room": lambda history: history[-1].snapshot.resources[0].available,
}
HELP: Final = "q quit   p pause   s sort   r reverse"


class Top:
    """What is shown, and how."""

    def __init__(self, watch: Watch, name: str | None) -> None:
        self._watch = watch
        self._one = name is not None
        self._orders = list(ORDERS)
        self._reverse = False
        self.paused = False
        self.failures: Sequence[str] = ()

    def press(self, key: str) -> bool:
        """Act on a key. False if it says to stop."""
        if key == "p" or key == " ":
            self.paused = not self.paused
        elif key == "s":
            self._orders = [*self._orders[1:], self._orders[0]]
        elif key == "r":
            self._reverse = not self._reverse
        return key not in ("q", "Q", "\x1b", "\x04")

    def look(self) -> None:
        """Sample once more, unless paused."""
        if not self.paused:
            self.failures = list(self._watch.look().failures.values())

    def render(self) -> RenderableType:
        """The picture of now."""
        order = self._orders[0]
        histories = sorted(self._watch.history.values(), key=ORDERS[order], reverse=self._reverse)
        state = "paused" if self.paused else time.strftime("%H:%M:%S")
        line = Text(f"{state}   by {order}{' reversed' if self._reverse else ''}   {HELP}", style="dim")
        shown = [tables.pictures(histories)] if histories else [tables.nothing(self._watch.directory)]
        more = [tables.detail(history[-1]) for history in histories] if self._one else []
        return Group(line, *shown, *more, *(Text(failure, style="red") for failure in self.failures))


def run(args: argparse.Namespace, console: Console) -> int:
    """Until ``q``. Where the output is no terminal, or one without a cursor, it prints once what ``status`` does."""
    if not console.is_terminal or console.is_dumb_terminal:
        return status.run(argparse.Namespace(**vars(args), json=False), console)
    top = Top(Watch(args.dir, args.name), args.name)
    top.look()
    with Keys() as keys, Live(top.render(), console=console, screen=True, auto_refresh=False) as live:
        due = time.monotonic() + args.interval
        while top.press(keys.wait(max(0.0, due - time.monotonic()))):
            if time.monotonic() >= due:
                top.look()
                due = time.monotonic() + args.interval
            live.update(top.render(), refresh=True)
    return 0
