"""All deaths there are, in groups; and how one conductor, a process of its own, is told to cause them."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Final

from hardcap.config import Mode
from tests.crash.campaign import Outcome
from tests.crash.names import CHANGES, Naming
from tests.crash.scenarios import OWN, Scenario, one_death, two_deaths
from tests.support.processes import Child

_LONG: Final = 6 * 3600.0  # seconds, for all points of one scenario
_PLAY: Final = "from tests.crash.suite import play\nplay(*where, size=size, seed=seed)"


@dataclass(frozen=True)
class Group:
    """One kind of deaths on one kind of segment."""

    kind: str
    backend: str
    mode: str
    resources: int

    def scenarios(self) -> Sequence[Scenario | Naming]:
        if self.kind == "names":
            return [
                Naming(change, points, self.mode) for change in CHANGES for points in ("system call", "instruction")
            ]
        made = one_death if self.kind == "one death" else two_deaths
        return made(self.backend, self.mode, self.resources)


GROUPS: Final = [
    *(Group(*what) for what in itertools.product(("one death", "two deaths"), OWN, map(str, Mode), (1, 2))),
    *(Group("names", "native", mode, 2) for mode in map(str, Mode)),
]


def play(group: Sequence[str | int], number: int, directory: str, *, size: int | None, seed: int) -> dict[str, int]:
    """In the conductor: what came of one scenario."""
    logging.getLogger("hardcap").addHandler(logging.NullHandler())  # segments are retired here, again and again
    scenario = Group(*group).scenarios()[number]  # type: ignore[arg-type]
    name = "-".join(map(str, (*group, number))).replace(" ", "-")
    return asdict(scenario.run(directory, name, size, seed))


def conduct(
    conductor: Child, group: Group, directory: str | os.PathLike[str], size: int | None = None, seed: int = 1
) -> Iterator[Outcome]:
    """What came of each scenario of a group. ``RemoteError`` where the promise was broken."""
    for number in range(len(group.scenarios())):
        conductor.post(_PLAY, where=[astuple(group), number, os.fspath(directory)], size=size, seed=seed)
        yield Outcome(**conductor.answer(_LONG))
