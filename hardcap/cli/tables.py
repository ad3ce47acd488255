"""What ``status`` and ``top`` show, as tables of at most 80 columns for names of ordinary length."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hardcap.cli import text
from hardcap.cli.samples import Sample
from hardcap.snapshot import ProcessSnapshot, ResourceSnapshot, Snapshot

SPARK_WIDTH: Final = 10


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, overflow="ellipsis", no_wrap=True)
    for heading in right:  # a figure is never cut
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    return table


def nothing(directory: str) -> Text:
    """In the place of a table where there is nothing to show."""
    return Text(f"no segments in '{directory}'")


def overview(samples: Iterable[Sample]) -> RenderableType:
    """One line for each resource of each segment."""
    table = _table(("name", "resource"), ("limit", "in flight", "free", "refused/s", "alive", "dead", "oldest"))
    for sample in samples:
        for index, resource in enumerate(sample.snapshot.resources):
            name, *crew = _of_segment(sample.snapshot) if index == 0 else [""] * 4
            table.add_row(name, resource.name, *_figures(sample, resource), *crew)
    return table


def _figures(sample: Sample, resource: ResourceSnapshot) -> Iterator[RenderableType]:
    yield f"{resource.limit}"
    yield _warned(f"{resource.in_flight}", resource.in_flight >= resource.limit)
    yield f"{resource.available}"
    yield text.rate(sample.rejected.get(resource.name, 0.0))


def _of_segment(snapshot: Snapshot) -> Iterator[RenderableType]:
    """What a segment's first line says for all its lines: its name, who lives, who is dead, the oldest permit's age."""
    dead = sum(not process.alive for process in snapshot.processes)
    oldest = min((process.oldest_permit_at for process in snapshot.processes if process.oldest_permit_at), default=None)
    yield snapshot.name
    yield f"{len(snapshot.processes) - dead}"
    yield _warned(f"{dead}", dead > 0)
    yield _since(oldest)


def _warned(text: str, warn: bool) -> Text:
    return Text(text, style="red" if warn else "")


def _since(moment: float | None) -> str:
    return text.age(time.time() - moment) if moment is not None else "-"


def detail(sample: Sample) -> RenderableType:
    """One segment: its resources, and per process what it holds, since when, and whether it lives."""
    snapshot, totals = sample.snapshot, sample.snapshot.totals
    rejected = ", ".join(f"{name} {count}" for name, count in totals.rejected.items())
    told = f"admitted {totals.admitted} ({text.rate(sample.admitted)}/s), refused {rejected}"
    ended = f"released {totals.released}, dead owners recovered {totals.recovered_owners}"
    head = Text.assemble((snapshot.name, "bold"), f"  {snapshot.mode}, read with backend {snapshot.backend}")
    return Group(head, _resources(sample), _processes(sample), Text(f"in calls: {told}"), Text(ended))


def _resources(sample: Sample) -> Table:
    table = _table(("resource",), ("limit", "in flight", "free", "refused/s"))
    for resource in sample.snapshot.resources:
        table.add_row(resource.name, *_figures(sample, resource))
    return table


def _processes(sample: Sample) -> Table:
    names = [resource.name for resource in sample.snapshot.resources]
    table = _table(("pid", "state"), (*names, "admitted", "refused", "refused/s", "since", "oldest"))
    for process in sample.snapshot.processes:
        table.add_row(*_process(process, names, sample.rejected_by.get(process.slot, 0.0)))
    return table


def _process(process: ProcessSnapshot, names: Sequence[str], rejected: float) -> Iterator[RenderableType]:
    yield f"{process.pid}"
    yield _warned("alive" if process.alive else "dead", not process.alive)
    yield from (f"{process.amounts[name]}" for name in names)
    yield f"{process.admitted}"
    yield f"{process.rejected}"
    yield text.rate(rejected)
    yield _since(process.started_at)
    yield _since(process.oldest_permit_at)


def pictures(histories: Iterable[Sequence[Sample]]) -> RenderableType:
    """One line for each resource of each segment, with in flight and refusals over the last samples."""
    table = _table(("name", "resource"), ("in flight", "", "refused/s", "", "alive", "dead"))
    for history in histories:
        for index, resource in enumerate(history[-1].snapshot.resources):
            name, alive, dead, _ = _of_segment(history[-1].snapshot) if index == 0 else [""] * 4
            table.add_row(name, resource.name, *_picture(history, index, resource), alive, dead)
    return table


def _picture(history: Sequence[Sample], index: int, resource: ResourceSnapshot) -> Iterator[RenderableType]:
    counts = [float(one.snapshot.resources[index].in_flight) for one in history]
    refused = [one.rejected.get(resource.name, 0.0) for one in history]
    yield _warned(f"{resource.in_flight}/{resource.limit}", resource.in_flight >= resource.limit)
    yield Text(text.sparkline(counts, max(resource.limit, *counts), SPARK_WIDTH), style="green")
    yield text.rate(refused[-1])
    yield Text(text.sparkline(refused, max(refused), SPARK_WIDTH), style="red")
