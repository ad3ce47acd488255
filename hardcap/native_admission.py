"""The native core behind the interfaces of this package: the same slots, the same words, the hot steps in C."""

from __future__ import annotations

from typing import cast

from hardcap import layout
from hardcap.admission import Admission
from hardcap.config import Mode
from hardcap.native import Core, Words
from hardcap.segment import Segment


class NativeAdmission(Core, Admission):
    """Reserve and release by the C counterpart of strict.py or approximate.py.

    Each call runs in one piece under the GIL, so nobody ever meets another in the middle of one.
    """

    def __init__(self, segment: Segment, slot: int) -> None:
        Admission.__init__(self, segment, slot)
        names = segment.shape.resources
        Core.__init__(
            self,
            words=cast(Words, segment.words),
            strict=segment.shape.mode is Mode.strict,
            resources=tuple((*_words(slot, index), name) for index, name in enumerate(names)),
            slots=segment.shape.slots,
            step=layout.SLOT_STEP,
            high_water=layout.H_HIGH_WATER,
            bell=layout.BELL,
            admitted=self._admitted,
            released=self._released,
            oldest=layout.slot(slot) + layout.S_OLDEST_PERMIT,
        )

    def _check_high_water(self) -> None:
        """Raise the error for a damaged high-water mark."""
        self.segment.high_water()


def _words(slot: int, index: int) -> tuple[int, int, int, int, int]:
    """Word numbers of one resource: its global word, its limit, ours, the first slot's, what ours refused."""
    return (
        layout.global_word(index),
        layout.limit_word(index),
        layout.slot_word(slot, index),
        layout.slot_word(0, index),
        layout.slot(slot) + layout.S_REFUSED + index,
    )
