"""A limiter's connection to its segment: attached, closed, or inherited by a fork and not attached again yet."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from hardcap import bell, descriptors, layout, overload, recovery, snapshot
from hardcap.admission import ADMITTED, Admission
from hardcap.amounts import Wanted, wanted
from hardcap.attaching import attach
from hardcap.backend import Backend
from hardcap.config import Config
from hardcap.directory import Directory
from hardcap.errors import CapExceeded, SegmentClosed, SegmentError
from hardcap.ownership import claim
from hardcap.segment import Segment, closed, ended
from hardcap.slots import mark_free

log = logging.getLogger("hardcap")


class _Attachment:
    """One slot of one segment, ours until it is cleared up."""

    def __init__(self, config: Config, backend: Backend) -> None:
        self.segment = attach(config, backend.words)
        try:
            self.slot = claim(self.segment)
            self.admission = backend.admission(self.segment, self.slot)
        except BaseException:
            self.segment.close()
            raise
        self._given_back = False

    def close(self) -> None:
        self.admission.close(self._clear_up)

    def drop(self) -> None:
        """Its limiter was collected: close, and tell of what it held. A permit would have kept it."""
        holding = self._holding()
        self.close()
        if holding:
            held = _amounts(self.admission, holding)
            text = f"limiter '{self.segment.name}' was dropped while it held {held}: it went back, keep the limiter"
            warnings.warn(text, ResourceWarning, stacklevel=3)

    def _holding(self) -> Wanted:
        """Nothing, if it is closed, or the slot is not ours any more."""
        with contextlib.suppress(SegmentClosed), self.admission.visit():
            return self.admission.holding() if self.segment.is_locked() else ()
        return ()

    def _clear_up(self) -> None:
        """Each step may be repeated, until all of them are done."""
        if not self._given_back and self.segment.is_locked():  # else the slot may be somebody else's by now
            self.admission.give_back_all()
            mark_free(self.segment, self.slot)
            bell.ring(self.segment.words)
        self._given_back = True
        self.admission.let_go()
        self.segment.close()

    def disown(self) -> None:
        """In a forked child: the slot and all it holds are the parent's."""
        self.admission.disown()
        self.admission.let_go()
        self.segment.detach()


class Attaching(SegmentError):
    """Asked by a signal handler, or a finalizer, in the middle of this thread's attaching: ``reserve`` says False."""


class Connection:
    """Attached from the start. In a forked child it attaches by itself when it is first used, holding nothing.

    ``admission`` is the one in use, or None: ``live`` attaches, or says that it is closed. Dropped without close, it
    closes, with a ``ResourceWarning`` if it held anything.
    """

    def __init__(self, config: Config, backend: Backend, reopen: Callable[[Config], Any]) -> None:
        self.backend = backend
        self.reopen = reopen  # what a pickled limiter calls where it arrives
        self.place = Directory.of(config)
        self.config = dataclasses.replace(config, directory=self.place.path)  # wherever this process or a child moves
        self.path = self.place.file(config.name)
        self.enforced = config.enforce is not False
        self.closed = False
        self._opening = threading.RLock()
        self._attaching = False  # whoever has the lock
        self._ended: Segment | None = None  # the one whose end was logged
        self._attachment: _Attachment | None = None
        self.admission: Admission | None = None
        self.live()
        _connections.add(self)

    @property
    def attached(self) -> bool:
        """Whether ``live`` has nothing to do; else it may wait for the directory's lock."""
        return self.admission is not None and not self.admission.inherited

    def live(self) -> Admission:
        """The admission in use. Attaches first after a fork; raises :class:`SegmentClosed` after close."""
        admission = self.admission
        if admission is not None and admission.generation == descriptors.generation():
            return admission
        descriptors.notice_fork()
        with self._opening:
            if self.closed:
                raise closed(self.path)
            return (self._attachment or self._attach()).admission

    def _attach(self) -> _Attachment:
        if self._attaching:  # not a second slot, and no wait for oneself
            raise Attaching(self.path, "this thread in the middle of attaching", "it attached", "ask again later")
        try:
            self._attaching = True
            return self._attachment or self._use(_Attachment(self.config, self.backend))  # or a handler was faster
        finally:
            self._attaching = False

    def _use(self, attachment: _Attachment) -> _Attachment:
        """From now on; unless a signal handler has closed meanwhile, which stands."""
        try:
            self.admission = attachment.admission
            self._attachment = attachment
            weakref.finalize(self, attachment.drop).atexit = False
            if self.closed:
                raise closed(self.path)
        except BaseException:
            self.admission = self._attachment = None
            attachment.close()
            raise
        return attachment

    @contextlib.contextmanager
    def visiting(self) -> Iterator[Admission]:
        """The admission in use, whose memory stays mapped for the length of the block."""
        admission = self.live()
        with admission.visit():
            yield admission

    @contextlib.contextmanager
    def operating(self) -> Iterator[Segment]:
        """The segment, with its locks known to be ours: by them others are taken for dead."""
        with self.visiting() as admission:
            self.check_lock(admission.segment)
            yield admission.segment

    def close(self) -> None:
        """Idempotent. While another thread is inside a call, that one clears up as it leaves."""
        descriptors.notice_fork()
        with self._opening:
            self.closed = True
            self.admission = None
            attachment = self._attachment
        if attachment is not None:
            attachment.close()
            self._attachment = None  # not before: what an exception has cut short can be asked for again

    def try_again(self, wanted: Wanted, headroom: int, refused: int) -> int:
        """After a refusal: sweep for dead owners if it is due, and ask once more if something came back."""
        if self.look_again():
            refused = self.live().reserve(wanted, headroom)
        return refused if refused == ADMITTED else self.refuse(wanted, refused)

    def look_again(self) -> bool:
        """After a refusal: sweep for dead owners if it is due. Whether something came back, so that one asks again."""
        with self.operating() as segment:
            self.check_in_use(segment)
            return recovery.is_due(segment) and recovery.sweep(segment).changed

    def refuse(self, wanted: Wanted, refused: int) -> int:
        """Count a refusal. A dry run then takes the units all the same: ``ADMITTED``."""
        self.count_refusal(refused)
        return refused if self.enforced else self.live().force(wanted)

    def count_refusal(self, refused: int) -> None:
        """Count one by that resource, and log that there are such if it is time."""
        admission = self.live()
        admission.refuse(refused)
        overload.tell(admission, refused)

    def ring_bell(self) -> None:
        """Wake all who sleep, in this process and in others: they ask again."""
        with self.visiting() as admission:
            bell.ring(admission.segment.words)

    def arm_bell(self) -> int:
        """Set the bell, before asking once more; where it is."""
        with self.visiting() as admission:
            return bell.arm(admission.segment.words)

    def check_lock(self, segment: Segment) -> None:
        """Close, and raise, if other code has closed a descriptor of our locks: they prove nothing any more."""
        if not (segment.is_locked() and segment.can_sweep()):
            self.close()
            remedy = "do not close descriptors you did not open; open the limiter after daemonizing"
            raise SegmentError(self.path, "the descriptor of its locks closed by other code", "it open", remedy)

    def check_in_use(self, segment: Segment) -> None:
        """Raise :class:`SegmentRetired` if nobody is to go on there."""
        found = self.notice_end(segment)
        if found:
            raise ended(self.path, found)

    def notice_end(self, segment: Segment) -> str:
        """How the segment has come to its end, by force or by the loss of its name; logged once. Nothing if in use."""
        found = segment.end()
        if found and self._ended is not segment:
            self._ended = segment
            segment.retire_nameless()
            log.warning("%s", ended(self.path, found))
        return found

    def exceeded(self, wanted: Wanted, headroom: int, index: int) -> CapExceeded:
        """The error for a reservation that resource ``index`` refused."""
        with self.visiting() as admission:
            limit = admission.segment.words.load(layout.limit_word(index))
            count = snapshot.in_flight(admission.segment, index)
        name = admission.segment.shape.resources[index]
        return CapExceeded(self.config.name, name, limit, count, dict(wanted)[index], headroom)

    def wanted(self, amount: int, amounts: dict[str, int]) -> Wanted:
        """What a call asks for, checked: by position and by name."""
        return wanted(self.live().segment.shape.resources, amount, amounts)

    def forgotten(self, admission: Admission, wanted: Wanted, source: object = None) -> None:
        """Tell of a permit that was collected while held."""
        text = f"a permit for {_amounts(admission, wanted)} of limiter '{self.config.name}' was never released"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=source)

    def after_fork(self) -> None:
        """In the child: let go of what is the parent's."""
        self._opening = threading.RLock()
        self._attaching = False
        if self._attachment is not None:
            self.admission = None
            self._attachment.disown()
            self._attachment = None


def _amounts(admission: Admission, wanted: Wanted) -> dict[str, int]:
    """Units by resource, as they are shown."""
    names = admission.segment.shape.resources
    return {names[index]: units for index, units in wanted}


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


@descriptors.in_forked_child
def _disown_inherited() -> None:
    for connection in list(_connections):
        connection.after_fork()
