"""What both modes share: the process-local section around an operation on the slot, and the totals.

A process's slot has many writers: threads, signal handlers, finalizers that give a forgotten permit back in the
middle of a reservation. The section is re-entrant, so that none of them can deadlock; a mode says what it does when
it is entered again. Closing while somebody is inside leaves the clearing up to the last one out.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from hardcap import descriptors, layout
from hardcap.amounts import Wanted
from hardcap.errors import ReleaseError
from hardcap.segment import Segment, closed

ADMITTED: Final = -1


class Admission:
    """Reserve and release on one slot of one segment, by one of the two modes."""

    def __init__(self, segment: Segment, slot: int) -> None:
        resources = range(len(segment.shape.resources))
        block = layout.slot(slot)
        self.segment = segment
        self.slot = slot
        self.closed = False
        self.generation = descriptors.generation()  # of forks: whose slot it is
        self._words = segment.words
        self._lock = threading.RLock()
        self._depth = 0  # operations entered and not left: one thread's, nested
        self._visitors = 0  # threads inside something slower, which need the memory mapped
        self._last_out: Callable[[], None] | None = None
        self._clearing = False
        self._permits: OrderedDict[int, int] = OrderedDict()  # id of each permit out: Unix nanoseconds
        self._oldest_shown = 0
        self._limits = [layout.limit_word(index) for index in resources]
        self._own = [layout.slot_word(slot, index) for index in resources]
        self._refused = [block + layout.S_REFUSED + index for index in resources]
        self._admitted = block + layout.S_ADMITTED
        self._released = block + layout.S_RELEASED

    def reserve(self, wanted: Wanted, headroom: int) -> int:
        """``ADMITTED``, or the index of the resource that has no room: then nothing is taken."""
        raise NotImplementedError

    def release(self, wanted: Wanted) -> None:
        """Give back. :class:`ReleaseError` if this slot holds less: then nothing is given back."""
        raise NotImplementedError

    def take(self, wanted: Wanted, *, enforced: bool) -> int:
        """Like ``reserve``, but no call to be counted; not ``enforced``, only what would overflow a word is refused."""
        raise NotImplementedError

    def put_back(self, wanted: Wanted) -> None:
        """Like ``release``, but no call to be counted."""
        raise NotImplementedError

    def force(self, wanted: Wanted) -> int:
        """Like ``reserve``, whatever the limits: only what would overflow a word is refused."""
        refused = self.take(wanted, enforced=False)
        if refused == ADMITTED:
            self._count(self._admitted)
        return refused

    def refuse(self, index: int) -> None:
        """Count one call refused by that resource."""
        self._count(self._refused[index])

    def held(self, index: int) -> int:
        """Units of that resource that this slot holds. For visitors."""
        return layout.low(self._words.load(self._own[index]))

    def give_back_all(self) -> None:
        """Release whatever is held, when nobody is inside: the end of this owner."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Drop whatever keeps the segment mapped, when nobody is inside."""

    @property
    def inherited(self) -> bool:
        """By a fork, though no hook may have told of it."""
        return descriptors.generation() != self.generation

    @property
    def lock(self) -> threading.RLock:
        """This process's, for steps on what belongs to this slot."""
        return self._lock

    def check_held(self, wanted: Wanted) -> None:
        """:class:`ReleaseError` if this slot holds less."""
        for index, units in wanted:
            if self.held(index) < units:
                raise self._too_much(index, units)

    def holding(self) -> Wanted:
        """All that this slot holds."""
        return tuple((index, units) for index in range(len(self._own)) if (units := self.held(index)))

    def permit_out(self, permit: int, at: int) -> None:
        """Note that a permit was given out, so that a forgotten one can be found."""
        with self._lock:
            self._permits[permit] = at
            self._show_oldest()

    def permit_back(self, permit: int) -> None:
        """Note that it came back."""
        with self._lock:
            self._permits.pop(permit, None)
            self._show_oldest()

    def close(self, clear_up: Callable[[], None]) -> None:
        """Let nobody in any more; ``clear_up`` runs when nobody is inside. Closed again, what failed is repeated."""
        with self._lock:
            if not self.closed:
                self._last_out = clear_up
                self.closed = True
            if not self._depth:
                self._leave()

    @contextlib.contextmanager
    def visit(self) -> Iterator[None]:
        """Keep the memory mapped for the length of the block, without keeping anybody out."""
        entered = False
        try:
            with self._lock:
                self._visitors += 1
                entered = True
                self._check_open()
            yield
        finally:
            if entered:
                with self._lock:
                    self._visitors -= 1
                    if not self._depth:
                        self._leave()

    def disown(self) -> None:
        """In a forked child: the slot is the parent's. No lock is waited for: its holder may not be there."""
        self.closed = True
        self._lock = threading.RLock()

    def _count(self, word: int) -> None:
        """Add one call to a total of ours, unless closed."""
        raise NotImplementedError

    def _show_oldest(self) -> None:
        """Look again after each store: a signal handler may have changed what is oldest meanwhile."""
        while not self.closed:
            try:
                oldest = next(iter(self._permits.values()), 0)
            except RecursionError:
                raise
            except RuntimeError:  # changed by a signal handler between iter and next
                continue
            if oldest == self._oldest_shown:
                return
            self._oldest_shown = oldest
            self._words.store(layout.slot(self.slot) + layout.S_OLDEST_PERMIT, oldest)

    def _leave(self) -> None:
        """On the way out, once nobody is inside: what close has left to do."""
        if self._last_out is None or self._visitors or self._clearing:
            return
        self._clearing = True
        try:
            self._last_out()
            self._last_out = None
        finally:
            self._clearing = False

    def _check_open(self) -> None:
        if self.closed:
            raise closed(self.segment.path)

    def _too_much(self, index: int, units: int) -> ReleaseError:
        return ReleaseError(self.segment.name, self.segment.shape.resources[index], self.held(index), units)
