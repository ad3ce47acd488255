"""The byte map: layout version 1 as it is on disk, and what it promises about alignment and isolation.

The figures are written out: whoever changes one of them makes another layout version.
"""

from __future__ import annotations

import itertools
import struct

import pytest

from hardcap import layout

CREATED_AT = 0x0123_4567_89AB_CDEF
GOLDEN: dict[int, int | bytes] = {
    0: b"hardcap\0",
    8: 1,  # layout version
    16: 0,  # retired
    24: 40960,  # file size
    32: 2,  # mode: approximate
    40: 2,  # resources
    48: 128,  # slots
    56: CREATED_AT,
    64: 10,  # limits last configured
    72: 8192,
    128: b"requests",
    160: b"tokens\0\0",
    4096 + 128: 10,  # limits in force
    4352 + 128: 8192,
}
WHERE = {
    "H_RETIRED": 16,
    "H_CONFIGURED": 64,
    "H_NAMES": 128,
    "H_HIGH_WATER": 512,
    "H_RECOVERED": 640,
    "H_SWEPT_AT": 768,
    "R_GLOBAL": 0,
    "R_LIMIT": 128,
    "R_BELL": 136,
    "S_STATE": 0,
    "S_WORDS": 8,
    "S_PID": 64,
    "S_STARTED_AT": 72,
    "S_OLDEST_PERMIT": 80,
    "S_ADMITTED": 88,
    "S_RELEASED": 96,
    "S_REFUSED": 128,
    "S_BASELINE": 192,
}
FIXED = {
    "MAGIC": 0x0070_6163_6472_6168,
    "LAYOUT_VERSION": 1,
    "HEADER_BYTES": 4096,
    "RESOURCE_BYTES": 256,
    "SLOT_BYTES": 256,
    "SLOTS_OFFSET": 5120,
    "MAX_RESOURCES": 4,
    "NAME_BYTES": 32,
    "MAX_AMOUNT": 2147483647,
    "MAX_LIMIT": 2147483647,
    "STATE_FREE": 0,
    "STATE_LIVE": 1,
    "ATTENDANCE_BYTE": 1099511627776,
    "REAPER_BYTE": 1099511627777,
    "SLOT_LOCKS": 1099511631872,
}


def image() -> bytes:
    return layout.initial_image(2, ("requests", "tokens"), (10, 8192), 128, CREATED_AT)


def test_a_fresh_segment_byte_by_byte() -> None:
    expected = bytearray(40960)
    for offset, value in GOLDEN.items():
        expected[offset : offset + 8] = struct.pack("<Q", value) if isinstance(value, int) else value
    assert image() == bytes(expected)


@pytest.mark.parametrize(("field", "offset"), WHERE.items())
def test_where_each_field_is(field: str, offset: int) -> None:
    assert getattr(layout, field) * 8 == offset


@pytest.mark.parametrize(("constant", "value"), FIXED.items())
def test_what_else_is_fixed(constant: str, value: int) -> None:
    assert getattr(layout, constant) == value


def test_no_field_is_missing_here() -> None:
    fields = {name for name in vars(layout) if name[:2] in ("H_", "R_", "S_")}
    in_golden = {"H_MAGIC", "H_VERSION", "H_FILE_BYTES", "H_MODE", "H_RESOURCES", "H_SLOTS", "H_CREATED_AT"}
    assert fields == set(WHERE) | in_golden


@pytest.mark.parametrize(
    "fields",
    [
        {"H_MAGIC": 8, "H_CONFIGURED": 4, "H_NAMES": 16, "H_HIGH_WATER": 1, "H_RECOVERED": 1, "H_SWEPT_AT": 1, "": 512},
        {"R_GLOBAL": 1, "R_LIMIT": 1, "": 32},
        {"S_STATE": 1, "S_WORDS": 4, "S_PID": 5, "S_REFUSED": 4, "S_BASELINE": 6, "": 32},
    ],
)
def test_no_two_fields_overlap(fields: dict[str, int]) -> None:
    """Widths in words; the last entry is where the block ends."""
    begin = [getattr(layout, name) if name else width for name, width in fields.items()]
    for (first, width), then in zip(zip(begin, fields.values(), strict=True), begin[1:], strict=False):
        assert first + width <= then


def test_every_block_lies_where_its_number_says() -> None:
    assert [layout.resource(k) * 8 for k in range(4)] == [4096, 4352, 4608, 4864]
    assert [layout.slot(k) * 8 for k in (0, 1, 4095)] == [5120, 5376, 5120 + 4095 * 256]
    assert (layout.global_word(1) * 8, layout.limit_word(1) * 8) == (4352, 4480)
    assert layout.slot_word(1, 3) * 8 == 5376 + 8 + 24


def test_words_changed_by_compare_and_swap_are_alone_on_128_bytes() -> None:
    shared = [layout.H_HIGH_WATER, layout.H_SWEPT_AT, layout.H_RECOVERED, *map(layout.global_word, range(4))]
    read_mostly = [*range(layout.H_NAMES + 16), *map(layout.limit_word, range(4))]
    slots = [layout.slot_word(slot, 0) for slot in range(3)]
    for mine, others in itertools.product(shared, [shared, read_mostly, slots]):
        assert mine * 8 // 128 not in {other * 8 // 128 for other in others if other != mine}


def test_what_the_owner_writes_on_each_operation_is_on_its_own_lines() -> None:
    lines = {name: getattr(layout, name) * 8 // 64 for name in WHERE if name.startswith("S_")}
    assert [name for name, line in lines.items() if line == 0] == ["S_STATE", "S_WORDS"]
    assert (layout.S_WORDS + 3) * 8 // 64 == 0
    assert lines["S_REFUSED"] == (layout.S_REFUSED + 3) * 8 // 64 == 2
    assert lines["S_BASELINE"] == (layout.S_BASELINE + 5) * 8 // 64 == 3
    assert layout.slot(0) * 8 % 256 == layout.slot(1) * 8 % 256 == 0


@pytest.mark.parametrize("slots", [1, 2, 11, 12, 13, 127, 128, 4096])
def test_a_segment_is_whole_pages_and_holds_all_its_slots(slots: int) -> None:
    size = layout.segment_bytes(slots)
    assert size % 4096 == 0
    assert 0 <= size - (layout.slot(slots) * 8) < 4096
    assert size < layout.ATTENDANCE_BYTE


def test_a_default_segment_is_small() -> None:
    assert layout.segment_bytes(layout.DEFAULT_SLOTS) <= 65536


def test_no_two_locks_share_a_byte() -> None:
    slot_locks = range(layout.SLOT_LOCKS, layout.SLOT_LOCKS + layout.MAX_SLOTS)
    assert len({layout.ATTENDANCE_BYTE, layout.REAPER_BYTE, *slot_locks}) == 2 + layout.MAX_SLOTS


@pytest.mark.parametrize(("low", "high"), [(0, 0), (1, 0), (0, 1), (2**31 - 1, 7), (2**32 - 1, 2**32 - 1)])
def test_two_halves_of_a_word(low: int, high: int) -> None:
    word = layout.pack(low, high)
    assert word == low + high * 2**32
    assert (layout.low(word), layout.high(word)) == (low, high)


def test_a_version_wraps() -> None:
    assert layout.pack(5, 2**32) == 5
    assert layout.pack(2**32 + 3, 1) == layout.pack(3, 1)
