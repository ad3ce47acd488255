"""The figures that are exported, in one table for every exporter, and where they are read from."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import hardcap
from hardcap.config import Config
from hardcap.errors import SegmentError
from hardcap.limiter import Limiter
from hardcap.snapshot import Snapshot

Sample = tuple[tuple[str, ...], int]  # the labels' values, and the figure
Source = Limiter | str
Sources = Source | Iterable[Source]

log = logging.getLogger("hardcap")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a segment: a total of calls that never goes back, or what is so at this moment."""

    name: str
    text: str
    unit: str
    labels: tuple[str, ...]
    is_total: bool
    samples: Callable[[Snapshot], Iterable[Sample]]


def _in_flight(snapshot: Snapshot) -> Iterator[Sample]:
    """Without what dead processes held, which comes back at the next refusal: an idle service shows 0."""
    dead = [process.amounts for process in snapshot.processes if not process.alive]
    for resource in snapshot.resources:
        lost = sum(amounts[resource.name] for amounts in dead)
        yield (snapshot.name, resource.name), max(0, resource.in_flight - lost)


def _limit(snapshot: Snapshot) -> Iterator[Sample]:
    return (((snapshot.name, resource.name), resource.limit) for resource in snapshot.resources)


def _admitted(snapshot: Snapshot) -> Iterator[Sample]:
    yield (snapshot.name,), snapshot.totals.admitted


def _rejected(snapshot: Snapshot) -> Iterator[Sample]:
    return (((snapshot.name, resource), calls) for resource, calls in snapshot.totals.rejected.items())


def _recovered(snapshot: Snapshot) -> Iterator[Sample]:
    yield (snapshot.name,), snapshot.totals.recovered_owners


def _processes(snapshot: Snapshot) -> Iterator[Sample]:
    yield (snapshot.name,), sum(process.alive for process in snapshot.processes)


_NAME: Final = ("name",)
_RESOURCE: Final = ("name", "resource")

FIGURES: Final = (
    Figure("in_flight", "Units in flight, held by living processes.", "{unit}", _RESOURCE, False, _in_flight),
    Figure("limit", "The limit in force, in units.", "{unit}", _RESOURCE, False, _limit),
    Figure("admitted", "Calls admitted, by all processes.", "{call}", _NAME, True, _admitted),
    Figure("rejected", "Calls refused, by the resource that refused.", "{call}", _RESOURCE, True, _rejected),
    Figure("recovered_processes", "Dead processes recovered.", "{process}", _NAME, True, _recovered),
    Figure("processes", "Living limiters attached.", "{process}", _NAME, False, _processes),
)


class Reader:
    """Reads the segments of limiters, or of names in ``directory``, without attaching to those."""

    def __init__(self, sources: Sources, directory: str | os.PathLike[str] | None) -> None:
        given = [sources] if isinstance(sources, Limiter | str) else list(sources)
        self._reads = [_read_of(source, directory) for source in given]

    def snapshots(self) -> list[Snapshot]:
        """Those that can be had now. A segment that is not there, or a limiter that is closed, is left out."""
        return [snapshot for read in self._reads if (snapshot := _attempt(read)) is not None]


def _read_of(source: Source, directory: str | os.PathLike[str] | None) -> Callable[[], Snapshot]:
    if isinstance(source, Limiter):
        return source.snapshot
    Config(source, directory=directory)  # a name that none can have is an error now, not an empty scrape for ever
    return functools.partial(hardcap.inspect, source, directory)


def _attempt(read: Callable[[], Snapshot]) -> Snapshot | None:
    try:
        return read()
    except (SegmentError, OSError) as error:
        log.debug("no figures are shown: %s", error)
        return None
