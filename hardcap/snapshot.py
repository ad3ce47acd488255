"""A read-only view of a segment: what is in flight, who holds it, the totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardcap import layout, locks
from hardcap.config import Mode
from hardcap.layout import low
from hardcap.segment import Segment
from hardcap.slots import is_live, totals

_NANO = 1e9


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    """One resource, in units. ``available`` is never negative, also while a lowered limit drains.

    >>> limiter = hardcap.open("web", limit=2)
    >>> limiter.snapshot().resources[0]
    ResourceSnapshot(name='requests', limit=2, in_flight=0, available=2)
    """

    name: str
    limit: int
    in_flight: int
    available: int


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """One attached limiter. ``held`` is units of the first resource, ``amounts`` of each.

    ``admitted``, ``rejected`` and ``released`` are calls since this owner came; times are Unix seconds.
    ``oldest_permit_at``, to the kernel's tick of 1 to 10 ms, is None while no permit is out; bare ``reserve`` does not
    keep it. A process that is not ``alive`` waits to be recovered.

    >>> limiter = hardcap.open("web", limit=2)
    >>> with limiter.admit():
    ...     (process,) = limiter.snapshot().processes
    >>> process.alive, process.held, process.oldest_permit_at >= process.started_at - 0.01
    (True, 1, True)
    """

    slot: int
    pid: int
    alive: bool
    held: int
    amounts: Mapping[str, int]
    admitted: int
    rejected: int
    released: int
    started_at: float
    oldest_permit_at: float | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Calls since the segment was built, over living and dead owners: none ever goes back.

    ``rejected`` is by resource: the one that refused. ``recovered_owners`` counts dead owners that were cleared up.

    >>> limiter = hardcap.open("web", limit=1)
    >>> limiter.reserve(), limiter.reserve()
    (True, False)
    >>> limiter.snapshot().totals
    Totals(admitted=1, rejected={'requests': 1}, released=0, recovered_owners=0)
    """

    admitted: int
    rejected: Mapping[str, int]
    released: int
    recovered_owners: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole segment, read field by field while it is in use: each figure is true, their sum may be a step apart.

    >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
    >>> snapshot = limiter.snapshot()
    >>> snapshot.name, [(resource.name, resource.limit) for resource in snapshot.resources], len(snapshot.processes)
    ('web', [('requests', 2), ('tokens', 100)], 1)
    """

    name: str
    mode: Mode
    backend: str
    resources: tuple[ResourceSnapshot, ...]
    processes: tuple[ProcessSnapshot, ...]
    totals: Totals


def read(segment: Segment, backend: str, own_slot: int | None = None) -> Snapshot:
    """Read a snapshot. The kernel is asked who is alive; ``own_slot`` is known to be, and must not be asked about."""
    slots = range(segment.high_water())
    return Snapshot(
        name=segment.name,
        mode=segment.shape.mode,
        backend=backend,
        resources=tuple(_resource(segment, index) for index in range(len(segment.shape.resources))),
        processes=tuple(found for slot in slots if (found := _process(segment, slot, own_slot)) is not None),
        totals=overall(segment),
    )


def in_flight(segment: Segment, index: int) -> int:
    """Units of one resource in flight."""
    if segment.shape.mode is Mode.strict:
        return low(segment.words.load(layout.global_word(index)))
    words = segment.words.column(layout.slot_word(0, index), segment.high_water(), layout.SLOT_STEP)
    return sum(map(low, words))


def _resource(segment: Segment, index: int) -> ResourceSnapshot:
    limit = segment.words.load(layout.limit_word(index))
    count = in_flight(segment, index)
    return ResourceSnapshot(segment.shape.resources[index], limit, count, max(0, limit - count))


def _process(segment: Segment, slot: int, own_slot: int | None) -> ProcessSnapshot | None:
    """The owner of a slot, or None if it is free. Read again if the owner changed in the middle."""
    while is_live(segment, slot):
        # [C1] snapshot: the state is read before and after pid and start.
        #   pairs: [C1] in ownership, which writes them before it marks the slot live
        #   else:  the previous owner's pid beside the new one's units.
        state = segment.words.load(layout.slot(slot) + layout.S_STATE)
        found = _owner(segment, slot, own_slot)
        if segment.words.load(layout.slot(slot) + layout.S_STATE) == state:
            return found
    return None


def _owner(segment: Segment, slot: int, own_slot: int | None) -> ProcessSnapshot:
    load, block = segment.words.load, layout.slot(slot)
    names = segment.shape.resources
    amounts = {name: low(load(layout.slot_word(slot, index))) for index, name in enumerate(names)}
    before = [load(block + layout.S_BASELINE + k) for k in range(2 + layout.MAX_RESOURCES)]
    admitted, released, *refused = (now - then for now, then in zip(totals(segment, slot), before, strict=True))
    oldest = load(block + layout.S_OLDEST_PERMIT)
    return ProcessSnapshot(
        slot=slot,
        pid=load(block + layout.S_PID),
        alive=slot == own_slot or locks.is_taken(segment.lock, layout.SLOT_LOCKS + slot),
        held=amounts[names[0]],
        amounts=amounts,
        admitted=admitted,
        rejected=sum(refused),
        released=released,
        started_at=load(block + layout.S_STARTED_AT) / _NANO,
        oldest_permit_at=oldest / _NANO if oldest else None,
    )


def overall(segment: Segment) -> Totals:
    """The totals of all owners there ever were."""
    names = segment.shape.resources
    sums = [sum(column) for column in zip(*(totals(segment, s) for s in range(segment.high_water())), strict=True)]
    admitted, released, *refused = sums or [0] * (2 + layout.MAX_RESOURCES)
    rejected = dict(zip(names, refused, strict=False))
    return Totals(admitted, rejected, released, segment.words.load(layout.H_RECOVERED))
