"""A mapped segment: its words, the lock that attends it, its limits, and how it comes to its end."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping

from hardcap import bell, descriptors, layout
from hardcap.config import Mode
from hardcap.directory import lost_name
from hardcap.errors import SegmentClosed, SegmentError, SegmentRetired
from hardcap.header import Shape, retired
from hardcap.locks import Sweeper
from hardcap.words import MappedWords, never_collect


class Segment:
    """One mapped segment, attended: ``lock`` is the descriptor whose locks say so, never the mapped one.

    ``sweeper`` has another description, for the locks of our sweeps; there is none where we only look.
    """

    def __init__(
        self,
        path: str,
        shape: Shape,
        lock: int,
        memory: mmap.mmap,
        words: MappedWords,
        sweeper: Sweeper | None = None,
    ) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.shape = shape
        self.lock = lock
        self.words = words
        self._memory = memory
        self.sweeper = sweeper

    def is_locked(self) -> bool:
        """Whether the kernel still knows us as attached: somebody may have closed all descriptors."""
        return descriptors.is_ours(self.lock)

    def can_sweep(self) -> bool:
        """Whether the locks of our sweeps are still on this file."""
        return self.sweeper is not None and self.sweeper.is_ours()

    def end(self) -> str:
        """Why nobody is to go on here, in words: it is retired, or its name leads elsewhere. Nothing while in use."""
        return retired(self.words.load(layout.H_RETIRED)) or lost_name(self.path, self.lock)

    def retire_nameless(self) -> None:
        """Tell all others, if no name leads to this file: nobody can come any more, so those who are there go too.

        No configuration can contradict it, so the directory's lock is not waited for.
        """
        if not os.fstat(self.lock).st_nlink:
            self.words.compare_exchange(layout.H_RETIRED, 0, layout.RETIRED_NAMELESS)
            self.drain()

    def high_water(self) -> int:
        """Number of slots ever used. Every scan reads it after the global word. [H1]"""
        # [H1] scan: the global word is loaded before the high-water mark.
        #   pairs: [H1] in ownership, where the mark is raised before the first announcement
        #   else:  an owner that came in between is neither summed nor betrayed by the version.
        count = self.words.load(layout.H_HIGH_WATER)
        if count > self.shape.slots:
            expected, remedy = f"at most {self.shape.slots} slots", "stop all processes attached, then open again"
            raise SegmentError(self.path, f"a high-water mark of {count}", expected, remedy)
        return count

    def set_limits(self, limits: Mapping[int, int], *, configured: bool = False) -> None:
        """Put limits in force, by resource index, under the directory's lock. Killed in between: the next opener
        finds the configured limit unchanged and does it again."""
        for index, limit in limits.items():
            # [L1] set_limit: the limit is stored before the version moves.
            #   pairs: [L1] in strict, where the global word is loaded before the limit
            #   else:  a swap decided by the old limit succeeds after set_limit has returned.
            self.words.store(layout.limit_word(index), limit)
            if self.shape.mode is Mode.strict:
                self.words.fetch_add(layout.global_word(index), layout.HIGH_ONE)
            if configured:
                self.words.store(layout.H_CONFIGURED + index, limit)
        bell.ring(self.words)

    def drain(self) -> None:
        """Let nobody in any more."""
        self.set_limits(dict.fromkeys(range(len(self.shape.resources)), 0))

    def limits(self) -> dict[str, int]:
        """The limits in force, by resource name."""
        return {name: self.words.load(layout.limit_word(index)) for index, name in enumerate(self.shape.resources)}

    def detach(self) -> None:
        """In a forked child: the parent's memory is out of reach from now on. The lock is closed already."""
        self.words.detach()
        self._unmap()

    def close(self) -> None:
        """Unmap it and drop every lock on it."""
        self.words.close()
        if self.is_locked():
            self._unmap()
        else:
            never_collect(self._memory)
        if self.sweeper is not None:
            self.sweeper.close()
        descriptors.close(self.lock)

    def _unmap(self) -> None:
        """``mmap`` closes a duplicate descriptor of its own by number. Late, that may be somebody else's by then."""
        try:
            self._memory.close()
        except BufferError:  # a thread inside a snapshot still reads it
            never_collect(self._memory)


def ended(path: str, found: str) -> SegmentRetired:
    """The error for a segment that has come to its end."""
    return SegmentRetired(path, found, "a segment in use", "open the name again")


def closed(path: str) -> SegmentClosed:
    """The error for a limiter that was closed."""
    return SegmentClosed(path, "this limiter closed", "an open one", "open the name again")
