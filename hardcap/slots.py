"""What a slot says of its owner: live or free, what it holds, what it has counted."""

from __future__ import annotations

from hardcap import layout
from hardcap.layout import high, low, pack
from hardcap.segment import Segment


def is_clean(segment: Segment, slot: int) -> bool:
    """Whether nothing is held or pending in the slot."""
    words = segment.words.column(layout.slot_word(slot, 0), len(segment.shape.resources), 1)
    return not any(words)


def is_live(segment: Segment, slot: int) -> bool:
    """Whether the slot is marked live. Its owner may be dead for all that."""
    return low(segment.words.load(layout.slot(slot) + layout.S_STATE)) == layout.STATE_LIVE


def mark_free(segment: Segment, slot: int) -> None:
    """What it held has been given back; its totals stay for ever."""
    state = layout.slot(slot) + layout.S_STATE
    segment.words.store(layout.slot(slot) + layout.S_OLDEST_PERMIT, 0)
    segment.words.store(state, pack(layout.STATE_FREE, high(segment.words.load(state))))


def totals(segment: Segment, slot: int) -> list[int]:
    """Admitted, released, and refused by each of four resources: calls, since the segment was built."""
    load, block = segment.words.load, layout.slot(slot)
    fields = [layout.S_ADMITTED, layout.S_RELEASED, *range(layout.S_REFUSED, layout.S_REFUSED + layout.MAX_RESOURCES)]
    return [load(block + field) for field in fields]
