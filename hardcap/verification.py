"""What a segment must be at every instant, looked at from outside while it is in use.

    FILE    the name leads to this file, which is nobody else's, and is not retired
    HEADER  it is a segment of this layout version, of the shape that its users attached to
    MARK    a slot at or above the high-water mark was never used
    LIMIT   a limit is no larger than a limit may be
    I1      what the slots hold <= global count                             (strict)
    I3      count, held and pending are never negative: below 0 they show as 2**31 and more
    I4      global count <= what the slots hold and have pending            (strict)
    SLOT    it is free or live; a free one holds nothing, a live one says whose it is
    TOTALS  totals never go back
    UNUSED  where no field is, there are zeros

I1 and I4 are about one instant. The global word is loaded before the slots are read, and after: if it is the same, its
version too, then no slot's share in the count changed in between, and each can be judged by the moment it was read at.
The others are about words that are written one after the other, or are read in halves. So whatever seems broken is
looked at again, and told only if it stays so.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hardcap import layout
from hardcap.config import Mode
from hardcap.directory import Directory
from hardcap.errors import LayoutMismatch, SegmentError
from hardcap.layout import MAX_LIMIT, SLOT_STEP, WORD, high, low
from hardcap.segment import Segment, ended
from hardcap.viewing import viewing, viewing_again

LOOKS: Final = 5
PAUSE: Final = 0.002  # seconds between two looks
PATIENCE: Final = 1.0  # seconds in which a look waits for a global word to stand still
MAX_PID: Final = 2**22  # of 64-bit Linux
FAR: Final = 2**62  # more calls, or nanoseconds since 1970, than there can have been

_RESTART: Final = "stop all processes attached, or unlink it by force; then open again"

log = logging.getLogger("hardcap")


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant that a segment breaks: where, what was found there, what was expected, and what to do.

    ``invariant`` is a name from the table at the top of ``hardcap/verification.py``, such as ``I1`` or ``HEADER``.

    >>> limiter = hardcap.open("web", limit=2)
    >>> hardcap.unlink("web", force=True)
    >>> print(*limiter.verify())
    FILE: file: found it retired by unlink --force, expected a segment in use; open the name again
    """

    invariant: str
    where: str
    found: str
    expected: str
    remedy: str = _RESTART

    def __str__(self) -> str:
        return f"{self.invariant}: {self.where}: found {self.found}, expected {self.expected}; {self.remedy}"


def verify(name: str, directory: str | os.PathLike[str] | None) -> list[Finding]:
    """What is broken in the segment of that name. :class:`SegmentError` where nothing stands that could be one."""
    try:
        with viewing(name, directory) as segment:
            return _check(segment)
    except LayoutMismatch as error:
        return [_told("HEADER", error)]


def verify_attached(segment: Segment, place: Directory) -> list[Finding]:
    """What is broken in a segment that we are attached to, wherever its name leads by now."""
    try:
        with viewing_again(segment) as view:
            return _compare(view, segment) or [*_vet(view, place), *_check(view)]
    except SegmentError as error:
        return [_told("HEADER", error)]


def _told(invariant: str, error: SegmentError) -> Finding:
    return Finding(invariant, "file", error.found, error.expected, error.remedy)


def _compare(view: Segment, attached: Segment) -> list[Finding]:
    if view.shape == attached.shape:
        return []
    return [Finding("HEADER", "file", str(view.shape), f"{attached.shape}, as when it was attached to")]


def _vet(view: Segment, place: Directory) -> list[Finding]:
    """Whether somebody who comes now would take the file for a segment of ours."""
    if view.end() or not os.path.isdir(place.path):
        return []
    try:
        place.vet(view.path, os.fstat(view.lock), os.stat(place.path))
    except SegmentError as error:
        return [_told("FILE", error)]
    return []


def _check(view: Segment) -> list[Finding]:
    end = view.end()
    return [*([_told("FILE", ended(view.path, end))] if end else []), *_lasting(view)]


def _lasting(view: Segment) -> list[Finding]:
    """What each of several looks shows. One that shows nothing is enough to know that nothing is broken."""
    found = _look(view)
    for _ in range(LOOKS - 1):
        if not found:
            break
        time.sleep(PAUSE)
        again = _look(view)
        found = {place: again[place] for place in found if place in again}
    return list(found.values())


def _look(view: Segment) -> dict[tuple[str, str], Finding]:
    return {(finding.invariant, finding.where): finding for finding in _Look(view).findings()}


class _Look:
    """One reading of the whole segment, and what is broken in it."""

    def __init__(self, view: Segment) -> None:
        self._view = view
        self._names = view.shape.resources
        self._strict = view.shape.mode is Mode.strict
        self._words = list(view.words.column(0, layout.segment_bytes(view.shape.slots) // WORD, 1))

    def findings(self) -> Iterator[Finding]:
        yield from self._header()
        for index, name in enumerate(self._names):
            yield from self._limit(index, f"resource '{name}'")
            if self._strict:
                yield from self._balance(index, f"resource '{name}'")
        for slot in range(self._view.shape.slots):
            yield from self._slot(slot, f"slot {slot}")
        yield from self._outside()

    def _header(self) -> Iterator[Finding]:
        mark, slots = self._words[layout.H_HIGH_WATER], self._view.shape.slots
        if mark > slots:
            yield Finding("MARK", "header", f"a high-water mark of {mark}", f"at most {slots} slots")
        for field, what in ((layout.H_CREATED_AT, "nanoseconds"), (layout.H_RECOVERED, "owners recovered")):
            if self._words[field] >= FAR:
                yield Finding("TOTALS", "header", f"{self._words[field]} {what}", f"less than {FAR}")

    def _limit(self, index: int, where: str) -> Iterator[Finding]:
        limit = self._words[layout.limit_word(index)]
        if limit > MAX_LIMIT:
            remedy = "set_limit: until then it refuses all that is asked for"
            yield Finding("LIMIT", where, f"a limit of {limit}", f"at most {MAX_LIMIT}", remedy)

    def _balance(self, index: int, where: str) -> Iterator[Finding]:
        account = _account(self._view, index)
        if account is None:
            log.warning("segment '%s': %s changed without a pause, its count was not verified", self._view.path, where)
            return
        count, slots = low(account[0]), account[1]
        held, pending = sum(map(low, slots)), sum(map(high, slots))
        if count > MAX_LIMIT:
            yield Finding("I3", where, f"{count} counted", f"0 to {MAX_LIMIT}")
        if held > count:
            yield Finding("I1", where, f"{held} held, {count} counted", "no more held than counted")
        if count > held + pending:
            found = f"{count} counted, {held} held, {pending} pending"
            yield Finding("I4", where, found, "no more counted than held and pending")

    def _slot(self, slot: int, where: str) -> Iterator[Finding]:
        start = layout.slot(slot)
        block, count = self._words[start : start + SLOT_STEP], len(self._names)
        if slot >= self._words[layout.H_HIGH_WATER]:
            if any(block):
                yield Finding("MARK", where, "a slot that was used", "none at or above the high-water mark")
            return
        yield from _owner(where, block, count)
        yield from _units(where, block, self._names, MAX_LIMIT if self._strict else 0)
        yield from _totals(where, block, count)
        yield from _strays(where, block, _slot_fields(count))

    def _outside(self) -> Iterator[Finding]:
        """Beside the fields of the header and the resources, and behind the last slot."""
        count = len(self._names)
        yield from _strays("header", self._words[: layout.resource(0)], _header_fields(count))
        for index in range(layout.MAX_RESOURCES):
            start = layout.resource(index)
            used = [layout.R_LIMIT, *([layout.R_GLOBAL] if self._strict else [])] if index < count else []
            if index == 0 and self._words[layout.BELL] == 1:  # somebody waits
                used.append(layout.R_BELL)
            yield from _strays(f"resource {index}", self._words[start : start + layout.RESOURCE_BYTES // WORD], used)
        yield from _strays("behind the slots", self._words[layout.slot(self._view.shape.slots) :], ())


def _account(view: Segment, index: int) -> tuple[int, list[int]] | None:
    """A global word, and the slots' words while it stood still. None if it never did."""
    words, until = view.words, time.monotonic() + PATIENCE
    while time.monotonic() < until:
        before = words.load(layout.global_word(index))
        count = min(words.load(layout.H_HIGH_WATER), view.shape.slots)
        slots = list(words.column(layout.slot_word(0, index), count, SLOT_STEP))
        if words.load(layout.global_word(index)) == before:
            return before, slots
    return None


def _owner(where: str, block: Sequence[int], count: int) -> Iterator[Finding]:
    state, pid = low(block[layout.S_STATE]), block[layout.S_PID]
    if state not in (layout.STATE_FREE, layout.STATE_LIVE):
        yield Finding("SLOT", where, f"state {state}", f"{layout.STATE_FREE} (free) or {layout.STATE_LIVE} (live)")
    if state == layout.STATE_FREE and any(block[layout.S_WORDS : layout.S_WORDS + count]):
        yield Finding("SLOT", where, "units in a free slot", "none")
    if state == layout.STATE_LIVE and not 0 < pid <= MAX_PID:
        yield Finding("SLOT", where, f"an owner of pid {pid}", f"a pid of 1 to {MAX_PID}")
    if max(block[layout.S_STARTED_AT], block[layout.S_OLDEST_PERMIT]) >= FAR:
        yield Finding("SLOT", where, "a time beyond all times", f"nanoseconds below {FAR}")


def _units(where: str, block: Sequence[int], names: Sequence[str], most_pending: int) -> Iterator[Finding]:
    for word, name in zip(block[layout.S_WORDS :], names, strict=False):
        if low(word) > MAX_LIMIT:
            yield Finding("I3", where, f"{low(word)} {name} held", f"0 to {MAX_LIMIT}")
        if high(word) > most_pending:
            yield Finding("I3", where, f"{high(word)} {name} pending", f"0 to {most_pending}")


def _totals(where: str, block: Sequence[int], count: int) -> Iterator[Finding]:
    refused = block[layout.S_REFUSED : layout.S_REFUSED + count]
    now = [block[layout.S_ADMITTED], block[layout.S_RELEASED], *refused]
    for total, before in zip(now, block[layout.S_BASELINE :], strict=False):
        if not before <= total < FAR:
            yield Finding("TOTALS", where, f"{total} calls, {before} when this owner came", "no fewer than then")


def _strays(where: str, words: Sequence[int], fields: Collection[int]) -> Iterator[Finding]:
    strays = sum(1 for number, word in enumerate(words) if word and number not in fields)
    if strays:
        yield Finding("UNUSED", where, f"{strays} words written where no field is", "zeros")


def _header_fields(count: int) -> set[int]:
    limits = range(layout.H_CONFIGURED, layout.H_CONFIGURED + count)
    names = range(layout.H_NAMES, layout.H_NAMES + count * layout.NAME_BYTES // WORD)
    return {*range(layout.H_CONFIGURED), *limits, *names, layout.H_HIGH_WATER, layout.H_RECOVERED, layout.H_SWEPT_AT}


def _slot_fields(count: int) -> set[int]:
    words = range(layout.S_WORDS, layout.S_WORDS + count)
    refused = range(layout.S_REFUSED, layout.S_REFUSED + count)
    baseline = range(layout.S_BASELINE, layout.S_BASELINE + 2 + count)
    return {layout.S_STATE, *words, *range(layout.S_PID, layout.S_RELEASED + 1), *refused, *baseline}
