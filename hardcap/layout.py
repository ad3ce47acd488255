"""The byte map of a segment, layout version 1: every field, who writes it, who reads it.

Little endian, 8-byte words, every word naturally aligned. Word numbers below are byte offsets divided by 8.

    0       header       4096 bytes
    4096    resources    4 blocks of 256 bytes, one a resource
    5120    slots        max_processes blocks of 256 bytes, one an attached limiter

A word changed by compare-and-swap is alone on 128 bytes: x86-64 prefetches cache lines in pairs (Intel 64 and
IA-32 Architectures Optimization Reference Manual, spatial prefetcher), and some ARM parts have lines of 128.
"""

from __future__ import annotations

import struct
from typing import Final

LAYOUT_VERSION: Final = 1
MAGIC: Final = int.from_bytes(b"hardcap\0", "little")

WORD: Final = 8
CACHE_LINE: Final = 64
HEADER_BYTES: Final = 4096
RESOURCE_BYTES: Final = 256
SLOT_BYTES: Final = 256
SLOT_STEP: Final = SLOT_BYTES // WORD  # from a slot's word to the same one of the next
SLOTS_OFFSET: Final = HEADER_BYTES + 4 * RESOURCE_BYTES

MAX_RESOURCES: Final = 4
MAX_AMOUNT: Final = 2**31 - 1
MAX_LIMIT: Final = 2**31 - 1
MAX_SLOTS: Final = 4096
DEFAULT_SLOTS: Final = 128
NAME_BYTES: Final = 32

# --- header. Written once by the builder before the file has a name, unless said otherwise ------------------------
# The first three words and the attendance byte stay where they are in every layout version.
H_MAGIC: Final = 0
H_VERSION: Final = 1
H_RETIRED: Final = 2  # 1 once `unlink --force` came, 2 once a user saw that its file is removed; read on every refusal
H_FILE_BYTES: Final = 3
H_MODE: Final = 4  # 1 strict, 2 approximate
H_RESOURCES: Final = 5
H_SLOTS: Final = 6
H_CREATED_AT: Final = 7  # Unix nanoseconds
H_CONFIGURED: Final = 8  # 4 words: the limits last configured; written under the directory's lock
H_NAMES: Final = 16  # 4 x 32 bytes: resource names in order, padded with zeros
H_HIGH_WATER: Final = 64  # slots ever used; raised by compare-and-swap, read by every scan; alone on its line
H_RECOVERED: Final = 80  # owners recovered, added to by whoever swept
H_SWEPT_AT: Final = 96  # monotonic nanoseconds of the last sweep after a refusal; compare-and-swap

# --- resource block ------------------------------------------------------------------------------------------------
R_GLOBAL: Final = 0  # count | version << 32, alone on its first 128 bytes (strict)
R_LIMIT: Final = 16  # the limit in force; written under the directory's lock, read by every reservation
R_BELL: Final = 17  # of resource 0: 1 while somebody sleeps until room is made, for whatever; read by every release

# --- slot block ------------------------------------------------------------------------------------------------------
# line 0: written by the owner on each operation, read by every scan
S_STATE: Final = 0  # state | incarnation << 32
S_WORDS: Final = 1  # 4 words, one a resource: held | pending << 32
# line 1: written by the owner, read by snapshots
S_PID: Final = 8
S_STARTED_AT: Final = 9  # Unix nanoseconds: when this owner came
S_OLDEST_PERMIT: Final = 10  # Unix nanoseconds, 0: no permit out
S_ADMITTED: Final = 11  # calls; stays for ever, see S_BASELINE
S_RELEASED: Final = 12
# line 2: written by the owner on each refusal
S_REFUSED: Final = 16  # 4 words, one a resource: calls it refused
# line 3: the totals as they were when this owner came, so that its own share can be told
S_BASELINE: Final = 24  # admitted, released, refused x 4

RETIRED_BY_FORCE: Final = 1
RETIRED_NAMELESS: Final = 2

STATE_FREE: Final = 0
STATE_LIVE: Final = 1

LOW: Final = 2**32 - 1
U64: Final = 2**64 - 1
HIGH_ONE: Final = 1 << 32  # one step of a version, one unit of pending

# --- bytes that are only ever locked, far behind the data ------------------------------------------------------------
ATTENDANCE_BYTE: Final = 1 << 40  # a read lock by everybody attached
REAPER_BYTE: Final = (1 << 40) + 1  # a write lock by the one that settles
SLOT_LOCKS: Final = (1 << 40) + 4096  # + i: a write lock by the owner of slot i


def segment_bytes(slots: int) -> int:
    """Size in bytes of a segment with that many slots, in whole pages."""
    return -(-(SLOTS_OFFSET + slots * SLOT_BYTES) // 4096) * 4096


def resource(index: int) -> int:
    """Word number at which the block of resource ``index`` begins."""
    return (HEADER_BYTES + index * RESOURCE_BYTES) // WORD


BELL: Final = resource(0) + R_BELL  # word number of the segment's bell


def slot(index: int) -> int:
    """Word number at which the block of slot ``index`` begins."""
    return (SLOTS_OFFSET + index * SLOT_BYTES) // WORD


def global_word(index: int) -> int:
    """Word number of the global word of resource ``index``."""
    return resource(index) + R_GLOBAL


def limit_word(index: int) -> int:
    """Word number of the limit in force of resource ``index``."""
    return resource(index) + R_LIMIT


def slot_word(slot_index: int, index: int) -> int:
    """Word number of the slot word of resource ``index`` in slot ``slot_index``."""
    return slot(slot_index) + S_WORDS + index


def low(word: int) -> int:
    """The low half: ``count`` of a global word, ``held`` of a slot word, the state of a state word."""
    return word & LOW


def high(word: int) -> int:
    """The high half: ``version`` of a global word, ``pending`` of a slot word, the incarnation of a state word."""
    return word >> 32


def pack(low_half: int, high_half: int) -> int:
    """Both halves as one word. A half wraps at 2**32."""
    return (low_half & LOW) | (high_half & LOW) << 32


def initial_image(mode: int, names: tuple[str, ...], limits: tuple[int, ...], slots: int, created_at: int) -> bytes:
    """The complete first content of a segment: nothing is ever initialised again in place."""
    image = bytearray(segment_bytes(slots))

    def put(word: int, value: int) -> None:
        struct.pack_into("<Q", image, word * WORD, value)

    header = {H_MAGIC: MAGIC, H_VERSION: LAYOUT_VERSION, H_FILE_BYTES: len(image), H_MODE: mode}
    header |= {H_RESOURCES: len(names), H_SLOTS: slots, H_CREATED_AT: created_at}
    for word, value in header.items():
        put(word, value)
    for index, (name, limit) in enumerate(zip(names, limits, strict=True)):
        start = H_NAMES * WORD + index * NAME_BYTES
        image[start : start + NAME_BYTES] = name.encode("ascii").ljust(NAME_BYTES, b"\0")
        put(H_CONFIGURED + index, limit)
        put(resource(index) + R_LIMIT, limit)
    return bytes(image)
