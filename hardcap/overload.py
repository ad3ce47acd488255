"""One line a minute, at most, that tells of refusals: by whoever is refused, so that no thread is needed.

One a process and segment, however many limiters it has there. The counts are of all processes, read when a line is
due; a refusal in between costs a look at the clock.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from typing import Final

from hardcap import descriptors, layout, snapshot
from hardcap.admission import Admission
from hardcap.errors import SegmentError

INTERVAL: Final = 60.0  # seconds between two lines

log = logging.getLogger("hardcap")


def tell(admission: Admission, index: int) -> None:
    """Log that resource ``index`` refuses, with the counts, unless a line of this segment is younger than a minute."""
    path = admission.segment.path
    line = _lines.get(path) or _lines.setdefault(path, _Line())
    line.tell_if_due(admission, index)


class _Line:
    """When the next line is due, and what the last one told."""

    def __init__(self) -> None:
        self._due = -math.inf
        self._told = 0
        self._turn = threading.Lock()

    def tell_if_due(self, admission: Admission, index: int) -> None:
        now = time.monotonic()
        if now < self._due or not self._turn.acquire(blocking=False):  # a handler of the log may be refused too
            return
        try:
            if now >= self._due:
                self._due = now + INTERVAL
                self._tell(admission, index)
        finally:
            self._turn.release()

    def _tell(self, admission: Admission, index: int) -> None:
        if not log.hasHandlers():  # a full limiter is no reason to write on the stderr of who has not set up logging
            return
        with contextlib.suppress(SegmentError), admission.visit():
            segment = admission.segment
            refused = sum(snapshot.overall(segment).rejected.values())
            since = refused - self._told if refused >= self._told else refused  # less: the segment started afresh
            self._told = refused
            log.warning(
                "limiter '%s' is full: %d of %d %s in flight; calls refused by all processes: "
                "%d since the last such line, %d since the segment was built",
                segment.name,
                snapshot.in_flight(segment, index),
                segment.words.load(layout.limit_word(index)),
                segment.shape.resources[index],
                since,
                refused,
            )


_lines: dict[str, _Line] = {}


@descriptors.in_forked_child
def _forget_parent() -> None:
    """The child tells for itself; whoever held a turn is not there."""
    _lines.clear()
