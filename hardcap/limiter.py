"""The limiter: what users hold. It attaches, asks the mode, and sees to refusals, forks and the end."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
import weakref
from types import TracebackType
from typing import NoReturn

from hardcap import layout, recovery, snapshot
from hardcap import segment as segments
from hardcap.admission import ADMITTED, Admission, Wanted
from hardcap.approximate import Approximate
from hardcap.config import Config, Mode, check_integer
from hardcap.directory import Directory
from hardcap.errors import BackendUnavailable, CapExceeded, SegmentError
from hardcap.ownership import claim, move_out
from hardcap.permit import Permit
from hardcap.segment import Segment
from hardcap.snapshot import Snapshot
from hardcap.strict import Strict

log = logging.getLogger("hardcap")

BACKEND = "atomics"


class _Default(int):
    """An amount that was not given, to be told from one that was."""


_ONE = _Default(1)
_SINGLE: Wanted = ((0, 1),)


class _Attachment:
    """One slot of one segment, ours until it is cleared up."""

    def __init__(self, config: Config) -> None:
        self.segment = segments.attach(config)
        try:
            self.slot = claim(self.segment)
        except BaseException:
            self.segment.close()
            raise
        kind = Strict if self.segment.shape.mode is Mode.strict else Approximate
        self.admission: Admission = kind(self.segment, self.slot)

    def close(self) -> None:
        self.admission.close(self._clear_up)

    def _clear_up(self) -> None:
        if locks_are_ours(self.segment):
            self.admission.give_back_all()
            move_out(self.segment, self.slot)
        self.segment.close()

    def disown(self) -> None:
        """In a forked child: the slot and all it holds are the parent's."""
        self.admission.disown()
        self.segment.detach()


def locks_are_ours(segment: Segment) -> bool:
    """Whether the slot still is ours to write to."""
    try:
        segment.check_lock()
    except SegmentError:
        return False
    return True


class _Absent:
    """In the place of an admission that there is not, or not yet: the limiter attaches first, or says it is closed."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def reserve(self, wanted: Wanted, headroom: int) -> int:
        return self._limiter._live().reserve(wanted, headroom)

    def release(self, wanted: Wanted) -> None:
        self._limiter._live().release(wanted)


class Limiter:
    """One process's share in a cap, made by :func:`hardcap.open`. Threads and signal handlers may share it.

    A process that forks goes on with its own slot; the child's limiter attaches by itself at its first call, holding
    nothing. Pickled, it attaches by name where it arrives. Dropped without :meth:`close`, it closes.
    """

    def __init__(self, config: Config) -> None:
        _check_backend(config)
        place = Directory(config.directory)
        self._config = dataclasses.replace(config, directory=place.path)  # wherever this process moves, or its child
        self._path = place.file(config.name)
        self._place = place
        self._closed = False
        self._opening = threading.RLock()
        self._admission: Admission | _Absent = _Absent(self)
        self._attachment: _Attachment | None = None
        self._live()
        _limiters.add(self)

    # --- the hot path ------------------------------------------------------------------------------------------------

    def reserve(self, amount: int = _ONE, /, *, headroom: int = 0, **amounts: int) -> bool:
        """Decide and count in one step: True, and the units are held until :meth:`release`; or False, and nothing is.

        ``amount`` is units of the first resource; by name, those not named are 0. ``headroom`` admits only if that
        many units of each resource asked for stay free, for low-priority traffic. Raises ``ValueError`` for an amount
        that is no integer from 1 to 2**31 - 1 (0 by name, beside a positive one), and :class:`SegmentError`.
        """
        wanted = _SINGLE if amount is _ONE and not amounts else self._wanted(amount, amounts)
        if type(headroom) is not int or headroom:
            check_integer("headroom", headroom, 0, layout.MAX_AMOUNT)
        refused = self._admission.reserve(wanted, headroom)
        return refused == ADMITTED or self._try_again(self._live(), wanted, headroom, refused) == ADMITTED

    def release(self, amount: int = _ONE, /, **amounts: int) -> None:
        """Give back what :meth:`reserve` took. More than this process holds: :class:`ReleaseError`, nothing changed."""
        self._admission.release(_SINGLE if amount is _ONE and not amounts else self._wanted(amount, amounts))

    def admit(self, amount: int = _ONE, /, *, timeout: float | None = 0.0, headroom: int = 0, **amounts: int) -> Permit:
        """Reserve, and return what was taken as a :class:`Permit`; :class:`CapExceeded` if there is no room.

        ``timeout`` is in seconds; other than 0 it raises ``NotImplementedError``: waiting is not there yet.
        """
        _check_timeout(timeout)
        wanted = _SINGLE if amount is _ONE and not amounts else self._wanted(amount, amounts)
        check_integer("headroom", headroom, 0, layout.MAX_AMOUNT)
        admission = self._live()
        refused = admission.reserve(wanted, headroom)
        if refused != ADMITTED:
            refused = self._try_again(admission, wanted, headroom, refused)
        if refused != ADMITTED:
            raise self._exceeded(admission, wanted, refused)
        return Permit(self, admission, wanted)

    async def admit_async(
        self, amount: int = _ONE, /, *, timeout: float | None = 0.0, headroom: int = 0, **amounts: int
    ) -> Permit:
        """Not there yet: raises ``NotImplementedError``."""
        raise NotImplementedError("limiter.admit_async is not there yet: use admit, which never waits")

    def _try_again(self, admission: Admission, wanted: Wanted, headroom: int, refused: int) -> int:
        """After a refusal: sweep for dead owners if it is due, and once more if something came back."""
        with admission.visit():
            self._check(admission.segment)
            if recovery.is_due(admission.segment) and self._swept(admission.segment):
                refused = admission.reserve(wanted, headroom)
        if refused != ADMITTED:
            admission.refuse(refused)
        return refused

    def _swept(self, segment: Segment) -> bool:
        try:
            return recovery.sweep(segment).changed
        except OSError as error:  # no descriptor to be had: the refusal stands
            log.warning("segment '%s' cannot be swept for dead owners: %s", segment.path, error)
            return False

    def _check(self, segment: Segment) -> None:
        self._check_lock(segment)
        segment.check_in_use()

    def _check_lock(self, segment: Segment) -> None:
        try:
            segment.check_lock()
        except SegmentError:
            self.close()
            raise

    def _exceeded(self, admission: Admission, wanted: Wanted, index: int) -> CapExceeded:
        with admission.visit():
            limit = admission.segment.words.load(layout.limit_word(index))
            count = snapshot.in_flight(admission.segment, index)
        name = admission.segment.shape.resources[index]
        return CapExceeded(self.name, name, limit, count, dict(wanted)[index])

    def _wanted(self, amount: int, amounts: dict[str, int]) -> Wanted:
        """The amounts asked for, by resource index, checked."""
        names = self._live().segment.shape.resources
        if not amounts:
            return ((0, check_integer("amount", amount, 1, layout.MAX_AMOUNT)),)
        if amount is not _ONE:
            check_integer("amount", amount, 1, layout.MAX_AMOUNT)
            if names[0] in amounts:
                raise ValueError(f"{names[0]} is given by position and by name, allowed: one of them")
            amounts = {names[0]: amount, **amounts}
        found = tuple((_index(names, name), units) for name, units in amounts.items() if _amount(name, units))
        if not found:
            raise ValueError(f"amounts are {amounts}, allowed: at least one from 1 to {layout.MAX_AMOUNT}")
        return found

    # --- limits and figures ----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The segment's name."""
        return self._config.name

    @property
    def mode(self) -> Mode:
        """The mode of the segment."""
        return self._live().segment.shape.mode

    @property
    def limit(self) -> int:
        """The limit in force of the first resource, in units."""
        return next(iter(self.limits.values()))

    @property
    def limits(self) -> dict[str, int]:
        """The limits in force, in units, by resource."""
        admission = self._live()
        with admission.visit():
            return admission.segment.limits()

    def set_limit(self, limit: int | None = None, /, **limits: int) -> None:
        """Change limits for all processes, at once and until the configured limit changes. 0 drains.

        Lowering below what is in flight refuses newcomers until enough has drained; nothing is taken away. Once it
        has returned, no reservation lifts what is in flight above the new limit. :class:`ConfigError` for a limit
        that is no integer from 0 to 2**31 - 1, :class:`SegmentError` if the directory's lock is not had in 10 s.
        """
        admission = self._live()
        names = admission.segment.shape.resources
        if limit is not None:
            limits = {names[0]: limit, **limits}
        if not limits:
            raise ValueError("no limit given, allowed: set_limit(10) or set_limit(tokens=4096)")
        checked = {_index(names, key): check_integer(key, n, 0, layout.MAX_LIMIT) for key, n in limits.items()}
        with admission.visit(), self._place.locked():
            self._check(admission.segment)
            admission.segment.set_limits(checked)

    @property
    def in_flight(self) -> int:
        """Units of the first resource in flight, over all processes."""
        admission = self._live()
        with admission.visit():
            return snapshot.in_flight(admission.segment, 0)

    @property
    def available(self) -> int:
        """Units of the first resource that are free, never negative."""
        return max(0, self.limit - self.in_flight)

    @property
    def held(self) -> int:
        """Units of the first resource that this limiter holds."""
        admission = self._live()
        with admission.visit():
            return admission.held(0)

    def snapshot(self) -> Snapshot:
        """All figures of the segment, read while it is in use."""
        admission = self._live()
        with admission.visit():
            self._check_lock(admission.segment)
            return snapshot.read(admission.segment, BACKEND, admission.slot)

    def reap(self) -> int:
        """Recover dead owners now; how many were cleared up. One whose operation was cut in half may need another."""
        admission = self._live()
        with admission.visit():
            self._check_lock(admission.segment)
            return recovery.sweep(admission.segment).owners

    # --- the end, forks, pickles -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back what is held and detach. Idempotent; afterwards every call raises :class:`SegmentClosed`.

        While another thread is inside a call, that one clears up as it leaves.
        """
        with self._opening:
            self._closed = True
            self._admission = _Absent(self)
            attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.close()

    def _live(self) -> Admission:
        """The admission in use. Attaches first after a fork; raises :class:`SegmentClosed` after close."""
        admission = self._admission
        if isinstance(admission, Admission):
            return admission
        with self._opening:
            if self._closed:
                raise segments.closed(self._path)
            if self._attachment is None:
                self._attachment = _Attachment(self._config)
                self._admission = self._attachment.admission
                weakref.finalize(self, self._attachment.close).atexit = False
            return self._attachment.admission

    def _after_fork(self) -> None:
        self._opening = threading.RLock()
        if self._attachment is not None:
            self._admission = _Absent(self)
            self._attachment.disown()
            self._attachment = None

    def __enter__(self) -> Limiter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Limiter], tuple[Config]]:
        return Limiter, (self._config,)

    def __repr__(self) -> str:
        return f"<Limiter '{self._path}'{' closed' if self._closed else ''}>"


def _check_backend(config: Config) -> None:
    if config.backend == "native":
        remedy = "leave backend at 'auto', or choose 'atomics'"
        raise BackendUnavailable(config.name, "no native core in this version", "backend 'atomics'", remedy)
    if config.enforce is False:
        raise NotImplementedError("enforce=False is not there yet: leave it out")


def _check_timeout(timeout: float | None) -> None:
    if timeout is None:
        _waiting_is_missing()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout < math.inf:
        raise ValueError(f"timeout is {timeout!r}, allowed: seconds from 0, or None")
    if timeout:
        _waiting_is_missing()


def _waiting_is_missing() -> NoReturn:
    raise NotImplementedError("waiting is not there yet: use timeout=0 and ask again")


def _index(names: tuple[str, ...], name: str) -> int:
    if name not in names:
        raise ValueError(f"resource is {name!r}, allowed: {', '.join(names)}")
    return names.index(name)


def _amount(name: str, units: int) -> int:
    return check_integer(name, units, 0, layout.MAX_AMOUNT)


_limiters: weakref.WeakSet[Limiter] = weakref.WeakSet()


def _disown_inherited() -> None:
    for limiter in list(_limiters):
        limiter._after_fork()


# Registered after the hook of locks.py, which has closed the inherited descriptors by then.
os.register_at_fork(after_in_child=_disown_inherited)
