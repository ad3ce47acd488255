"""The header of a segment: what it says of the segment's shape, and whether it can be believed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hardcap import layout
from hardcap.config import Mode
from hardcap.directory import REMOVED, UNTOUCHED
from hardcap.errors import LayoutMismatch, SegmentError
from hardcap.settings import RESOURCE
from hardcap.words import words_of

MODE_NUMBERS = {Mode.strict: 1, Mode.approximate: 2}
_MODES = {number: mode for mode, number in MODE_NUMBERS.items()}
_RETIRED = {
    layout.RETIRED_BY_FORCE: "it retired by unlink --force",
    layout.RETIRED_NAMELESS: REMOVED,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What cannot change while a segment lives: the mode, the resources in order, the number of slots."""

    mode: Mode
    resources: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment of this layout version, checked."""

    shape: Shape
    configured: tuple[int, ...]


def read_ours(path: str, file: int) -> bytes:
    """The header's bytes, of whatever layout version; :class:`SegmentError` for a file that is no segment."""
    image = os.pread(file, layout.HEADER_BYTES, 0)
    if len(image) < layout.HEADER_BYTES or words_of(image, layout.H_MAGIC, 1)[0] != layout.MAGIC:
        found = f"a file of {os.fstat(file).st_size} bytes without hardcap's magic"
        raise SegmentError(path, found, "a segment", UNTOUCHED)
    return image


def parse(path: str, image: bytes, file: int) -> Header:
    """The header, or an error that says what is wrong with it."""
    version, flag, size, mode, resources, slots = words_of(image, layout.H_VERSION, 6)
    if version != layout.LAYOUT_VERSION:
        remedy = "stop all processes of the other version first"
        raise LayoutMismatch(path, f"layout version {version}", f"version {layout.LAYOUT_VERSION}", remedy)
    actual = os.fstat(file).st_size
    names = _names(image, min(resources, layout.MAX_RESOURCES))
    limits = words_of(image, layout.H_CONFIGURED, len(names))
    sane = (
        1 <= slots <= layout.MAX_SLOTS
        and size == actual == layout.segment_bytes(slots)
        and mode in _MODES
        and 1 <= resources == len(set(names))
        and all(map(RESOURCE.fullmatch, names))
        and max(limits) <= layout.MAX_LIMIT
        and flag in (0, *_RETIRED)
    )
    if not sane:
        found = f"a damaged header (size {actual}, {slots} slots, {resources} resources, mode {mode}, flag {flag})"
        raise LayoutMismatch(path, found, "the header of a segment", "stop all processes attached, then open again")
    return Header(Shape(_MODES[mode], names, slots), limits)


def retired(flag: int) -> str:
    """What the retired flag says, in words; nothing while the segment is in use, or for a flag that nobody has set."""
    return _RETIRED.get(flag, "")


def _names(image: bytes, count: int) -> tuple[str, ...]:
    start = layout.H_NAMES * layout.WORD
    fields = [image[start + i * layout.NAME_BYTES :][: layout.NAME_BYTES] for i in range(count)]
    return tuple(field.rstrip(b"\0").decode("latin-1") for field in fields)
