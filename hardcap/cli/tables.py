"""What ``status`` and ``top`` show, as tables of at most 80 columns for names of ordinary length."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hardcap.cli import words
from hardcap.cli.samples import Sample
from hardcap.snapshot import ProcessSnapshot, ResourceSnapshot, Snapshot

SPARK_WIDTH: Final = 12


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in left:
        table.add_column(heading, overflow="ellipsis", no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def overview(samples: Iterable[Sample]) -> RenderableType:
    """One line for each resource of each segment."""
    table = _table(("name", "mode", "resource"), ("limit", "in flight", "free", "refused/s", "processes", "oldest"))
    for sample in samples:
        for index, resource in enumerate(sample.snapshot.resources):
            table.add_row(*_shared(sample, index), *_figures(sample, resource), *_crew(sample.snapshot, index))
    return table


def _shared(sample: Sample, index: int) -> tuple[str, str, str]:
    """What a segment's first line says for all its lines."""
    snapshot = sample.snapshot
    name, mode = (snapshot.name, snapshot.mode.value) if index == 0 else ("", "")
    return name, mode, snapshot.resources[index].name


def _figures(sample: Sample, resource: ResourceSnapshot) -> Iterator[RenderableType]:
    yield f"{resource.limit}"
    yield Text(f"{resource.in_flight}", style="red" if resource.in_flight >= resource.limit else "")
    yield f"{resource.available}"
    yield words.rate(sample.rejected.get(resource.name, 0.0))


def _crew(snapshot: Snapshot, index: int) -> Iterator[RenderableType]:
    if index:
        return
    dead = sum(not process.alive for process in snapshot.processes)
    yield f"{len(snapshot.processes) - dead}" + (f" +{dead} dead" if dead else "")
    oldest = min((process.oldest_permit_at for process in snapshot.processes if process.oldest_permit_at), default=None)
    yield words.age(time.time() - oldest) if oldest else "-"


def detail(sample: Sample) -> RenderableType:
    """One segment: its resources, and per process what it holds, since when, and whether it lives."""
    snapshot, totals = sample.snapshot, sample.snapshot.totals
    rejected = ", ".join(f"{name} {count}" for name, count in totals.rejected.items())
    told = f"admitted {totals.admitted} ({words.rate(sample.admitted)}/s), refused {rejected}"
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
    table = _table(("pid", "state"), (*names, "admitted", "refused", "refused/s", "since", "oldest permit"))
    now = time.time()
    for process in sample.snapshot.processes:
        table.add_row(*_process(process, names, sample.rejected_by.get(process.slot, 0.0), now))
    return table


def _process(process: ProcessSnapshot, names: Sequence[str], rejected: float, now: float) -> Iterator[RenderableType]:
    yield f"{process.pid}"
    yield Text("alive" if process.alive else "dead", style="" if process.alive else "red")
    yield from (f"{process.amounts[name]}" for name in names)
    yield f"{process.admitted}"
    yield f"{process.rejected}"
    yield words.rate(rejected)
    yield words.age(now - process.started_at)
    yield words.age(now - process.oldest_permit_at) if process.oldest_permit_at else "-"


def pictures(histories: Iterable[Sequence[Sample]]) -> RenderableType:
    """One line for each resource of each segment, with in flight and refusals over the last samples."""
    table = _table(("name", "resource"), ("limit", "in flight", "", "refused/s", "", "processes"))
    for history in histories:
        for index, resource in enumerate(history[-1].snapshot.resources):
            table.add_row(*_picture(history, index, resource))
    return table


def _picture(history: Sequence[Sample], index: int, resource: ResourceSnapshot) -> Iterator[RenderableType]:
    counts = [float(one.snapshot.resources[index].in_flight) for one in history]
    refused = [one.rejected.get(resource.name, 0.0) for one in history]
    name, _, _ = _shared(history[-1], index)
    limit, in_flight, _, rejected = _figures(history[-1], resource)
    yield from (name, resource.name, limit, in_flight)
    yield Text(words.sparkline(counts, max(resource.limit, *counts), SPARK_WIDTH), style="green")
    yield rejected
    yield Text(words.sparkline(refused, max(refused), SPARK_WIDTH), style="red")
    yield from [crew for crew, _ in [tuple(_crew(history[-1].snapshot, index)) or ("", "")]]
