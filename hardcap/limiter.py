"""The limiter: what users hold."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from hardcap import recovery, snapshot, waiting
from hardcap.amounts import ONE, Wanted, limits_by_index, with_first
from hardcap.config import Config, Mode
from hardcap.connection import Connection
from hardcap.errors import ConfigError
from hardcap.permit import Permit
from hardcap.snapshot import Snapshot
from hardcap.verification import Finding, verify_attached
from hardcap.waiting import Waiter


class Limiter:
    """One process's share in a cap, made by :func:`hardcap.open`. Threads and signal handlers may use it.

    A process that forks goes on with its own slot; the child's limiter attaches by itself at its first call, holding
    nothing. Pickled, it attaches by name where it arrives. Dropped without :meth:`close`, it closes: with
    a ``ResourceWarning`` if it held anything, silently at interpreter exit.

    A signal handler that *raises* in the middle of a call (``KeyboardInterrupt``) may leave that call cut in half:
    its units stay counted until this process ends, and never the other way round.

    >>> with hardcap.open("web", limit=2) as limiter:
    ...     if limiter.reserve():
    ...         limiter.release()
    """

    __slots__ = ()

    _connection: Connection

    def reserve(self, amount: int = ONE, /, *, headroom: int = 0, **amounts: int) -> bool:
        """Decide and count in one step: True, and the units are held until :meth:`release`; or False, and nothing is.

        ``amount`` is units of the first resource; by name, those not named are 0. ``headroom`` admits only if that
        many units of each resource asked for stay free: for low-priority traffic. Raises :class:`ConfigError` (which is
        a ``ValueError``) for an amount that is no integer from 1 to 2**31 - 1 (0 by name, beside a positive one), and
        :class:`SegmentError`.

        >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
        >>> limiter.reserve(), limiter.reserve(requests=1, tokens=60), limiter.reserve(tokens=60)
        (True, True, False)
        >>> limiter.reserve(tokens=30, headroom=20)
        False
        """
        raise NotImplementedError

    def release(self, amount: int = ONE, /, **amounts: int) -> None:
        """Give back what :meth:`reserve` took. More than this limiter holds: :class:`ReleaseError`, nothing changed.

        :class:`ConfigError` for an amount as in :meth:`reserve`, :class:`SegmentClosed` after :meth:`close`.

        >>> limiter = hardcap.open("web", limit=2)
        >>> if limiter.reserve(2):
        ...     limiter.release(2)
        >>> limiter.held
        0
        """
        raise NotImplementedError

    def admit(self, amount: int = ONE, /, *, timeout: float | None = 0.0, headroom: int = 0, **amounts: int) -> Permit:
        """Reserve, and return what was taken as a :class:`Permit`; :class:`CapExceeded` if there is no room.

        It waits for room up to ``timeout`` seconds (0: not at all; None: for ever), and blocks its thread meanwhile: in
        a running event loop use :meth:`admit_async`. Those who wait in one process are served in the order they came,
        as far as they ask for the same resources with no more ``headroom``; among processes there is no order, and
        ``reserve`` and calls that do not wait may go before those who do. A wait that a timeout or an exception ends
        holds nothing; one that a timeout ends counts as one call refused. Closing the limiter ends all waits, with
        :class:`SegmentClosed`. Also raises :class:`ConfigError` and :class:`SegmentError`, as :meth:`reserve` does.

        >>> limiter = hardcap.open("web", limit=1)
        >>> with limiter.admit():
        ...     limiter.admit(timeout=0.01)
        Traceback (most recent call last):
        hardcap.errors.CapExceeded: limiter 'web' is full: 1 of 1 requests in flight
        """
        waiter = Waiter(self._connection, self._ask, amount, timeout, headroom, amounts)
        return waiter.try_at_once() or waiting.block(waiter)

    _admit = admit  # for a native limiter, which answers plain calls by itself

    async def admit_async(
        self, amount: int = ONE, /, *, timeout: float | None = 0.0, headroom: int = 0, **amounts: int
    ) -> Permit:
        """Like :meth:`admit`, for asyncio: this task waits, and its event loop goes on.

        A task that is cancelled, at whatever instant, holds nothing. The permit may be released by any task or thread.

        >>> import asyncio
        >>> async def handle(limiter):
        ...     with await limiter.admit_async(timeout=5) as permit:
        ...         return permit.amounts
        >>> asyncio.run(handle(hardcap.open("web", limit=2)))
        {'requests': 1}
        """
        if not self._connection.attached:  # in a forked child it may have to wait for the directory's lock
            import asyncio

            await asyncio.to_thread(self._connection.live)
        waiter = Waiter(self._connection, self._ask, amount, timeout, headroom, amounts)
        return waiter.try_at_once() or await waiting.suspend(waiter)

    def _ask(self, wanted: Wanted, headroom: int, enforced: bool = True, /) -> Permit | int:
        """Ask once, and count no refusal: a permit, or the index of the resource that refused."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The segment's name.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.name
        'web'
        """
        return self._connection.config.name

    @property
    def mode(self) -> Mode:
        """The mode of the segment.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.mode
        <Mode.strict: 'strict'>
        """
        return self._connection.live().segment.shape.mode

    @property
    def limit(self) -> int:
        """The limit in force of the first resource, in units.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.limit
        2
        """
        return next(iter(self.limits.values()))

    @property
    def limits(self) -> dict[str, int]:
        """The limits in force, in units, by resource.

        >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
        >>> limiter.limits
        {'requests': 2, 'tokens': 100}
        """
        with self._connection.visiting() as admission:
            return admission.segment.limits()

    def set_limit(self, limit: int | None = None, /, **limits: int) -> None:
        """Change limits for all processes, at once and until the configured limit changes. 0 drains.

        Lowering below what is in flight refuses newcomers until enough has drained; nothing is taken away. Once it
        has returned, no reservation lifts what is in flight above the new limit. :class:`ConfigError` for a limit
        that is no integer from 0 to 2**31 - 1, :class:`SegmentError` if the directory's lock is not had in 10 s.

        >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
        >>> limiter.set_limit(5)
        >>> limiter.set_limit(tokens=400)
        >>> limiter.limits
        {'requests': 5, 'tokens': 400}
        """
        names = self._names()
        if limit is not None:
            limits = with_first(names, limit, limits)
        if not limits:
            raise ConfigError("set_limit", "called without a limit", "set_limit(10) or set_limit(tokens=4096)")
        checked = limits_by_index(names, limits)
        with self._connection.place.locked(), self._connection.operating() as segment:
            self._connection.check_in_use(segment)
            segment.set_limits(checked)

    @property
    def in_flight(self) -> int:
        """Units of the first resource in flight, over all processes.

        >>> one, other = hardcap.open("web", limit=4), hardcap.open("web", limit=4)
        >>> one.reserve(2), other.reserve()
        (True, True)
        >>> one.in_flight, other.in_flight
        (3, 3)
        """
        with self._connection.visiting() as admission:
            return snapshot.in_flight(admission.segment, 0)

    @property
    def available(self) -> int:
        """Units of the first resource that are free, never negative.

        >>> limiter = hardcap.open("web", limit=4)
        >>> limiter.reserve(3), limiter.available
        (True, 1)
        """
        return max(0, self.limit - self.in_flight)

    @property
    def held(self) -> int:
        """Units of the first resource that this limiter holds.

        >>> one, other = hardcap.open("web", limit=4), hardcap.open("web", limit=4)
        >>> one.reserve(2), one.held, other.held
        (True, 2, 0)
        """
        with self._connection.visiting() as admission:
            return admission.held(0)

    def snapshot(self) -> Snapshot:
        """All figures of the segment, read while it is in use.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.reserve(), limiter.reserve(), limiter.reserve()
        (True, True, False)
        >>> limiter.snapshot().totals.rejected
        {'requests': 1}
        """
        with self._connection.operating() as segment:
            self._connection.notice_end(segment)
            return snapshot.read(segment, self._connection.backend.name, self._connection.live().slot)

    def reap(self) -> int:
        """Recover dead owners now; how many were cleared up. One whose operation was cut in half may need another.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.reap()  # nobody has died
        0
        """
        with self._connection.operating() as segment:
            self._connection.notice_end(segment)
            return recovery.sweep(segment).owners

    def verify(self) -> list[Finding]:
        """Which invariants the segment breaks, each with what to do; an empty list if none, as should be.

        It takes nothing, changes nothing, and may be called while everything runs. What seems broken is looked at
        again before it is told, for about 10 ms. A count that changes without a pause is waited for, up to 1 s, and
        then left out, with a logged warning.

        >>> limiter = hardcap.open("web", limit=2)
        >>> for finding in limiter.verify():
        ...     print(finding)
        """
        with self._connection.operating() as segment:
            return verify_attached(segment, self._connection.place)

    def close(self) -> None:
        """Give back what is held and detach. Idempotent; afterwards every call raises :class:`SegmentClosed`.

        While another thread is inside a call, that one clears up as it leaves.

        >>> limiter = hardcap.open("web", limit=2)
        >>> limiter.close()
        >>> limiter.reserve()
        Traceback (most recent call last):
        hardcap.errors.SegmentClosed: segment '...web': found this limiter closed, expected an open one; open ...
        """
        self._connection.close()

    def _names(self) -> tuple[str, ...]:
        return self._connection.live().segment.shape.resources

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[[Config], Limiter], tuple[Config]]:
        return self._connection.reopen, (self._connection.config,)

    def __repr__(self) -> str:
        return f"<Limiter '{self._connection.path}'{' closed' if self._connection.closed else ''}>"
