"""A permit: what one reservation took, to be given back once."""

from __future__ import annotations

from abc import ABC
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from hardcap.admission import ADMITTED
from hardcap.amounts import ONE, Wanted, given, merged
from hardcap.errors import ConfigError

if TYPE_CHECKING:
    from hardcap.admission import Admission
    from hardcap.connection import Connection


class Permit(ABC):
    """Units held, from ``Limiter.admit`` until :meth:`release`; a context manager.

    It belongs to the process that took it: in a forked child it neither releases nor warns. It cannot be pickled or
    copied. Garbage-collected while held, it is released, with a ``ResourceWarning`` (silently at interpreter exit).

    >>> limiter = hardcap.open("web", limit=2)
    >>> with limiter.admit():
    ...     limiter.in_flight
    1
    """

    __slots__ = ()

    _admission: Admission
    _connection: Connection

    @property
    def _wanted(self) -> Wanted:
        """What it holds, or has held."""
        raise NotImplementedError

    @property
    def amounts(self) -> dict[str, int]:
        """Units by resource, those taken only.

        >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
        >>> with limiter.admit(tokens=60) as permit:
        ...     permit.amounts
        {'tokens': 60}
        """
        names = self._admission.segment.shape.resources
        return {names[index]: units for index, units in self._wanted}

    @property
    def released(self) -> bool:
        """Whether nothing is held by it any more: released, or its limiter closed, or inherited by a fork.

        >>> permit = hardcap.open("web", limit=2).admit()
        >>> permit.released, permit.release(), permit.released
        (False, True, True)
        """
        raise NotImplementedError

    def release(self) -> bool:
        """Give the units back. True the first time, False ever after, from any thread.

        False too once its limiter is closed (closing gave them back), and in a forked child (the parent holds them).
        :class:`ReleaseError` if the limiter holds less by now: a bare ``limiter.release()`` took this permit's units.

        >>> permit = hardcap.open("web", limit=2).admit()
        >>> permit.release(), permit.release()
        (True, False)
        """
        raise NotImplementedError

    def adjust(self, amount: int = ONE, /, **amounts: int) -> bool:
        """Hold so many units instead, of the resources that are named: an estimate is settled. It never waits.

        What it holds less is given back once what it holds more was to be had, all of it. False, and nothing changed:
        that would not fit, or it is released. Counted, as one call refused, is only a refusal. :class:`ConfigError` as
        from ``reserve``, and where nothing would be left, which is what :meth:`release` is for; :class:`SegmentError`
        as from ``reserve``, and :class:`ReleaseError` as from ``release``.

        >>> limiter = hardcap.open("web", limits={"tokens": 100})
        >>> with limiter.admit(tokens=60) as permit:
        ...     permit.adjust(tokens=25), permit.adjust(tokens=101), permit.amounts
        (True, False, {'tokens': 25})
        """
        if amount is ONE and not amounts:
            raise ConfigError("adjust", "called without an amount", "adjust(3) or adjust(tokens=731)")
        changes = given(self._admission.segment.shape.resources, amount, amounts)
        refused = _adjust(self, changes, enforced=True)
        if refused is None or refused == ADMITTED:
            return refused is not None
        if self._connection.look_again():
            refused = _adjust(self, changes, enforced=True)
        if refused is not None and refused != ADMITTED:
            self._connection.count_refusal(refused)
            if not self._connection.enforced:
                refused = _adjust(self, changes, enforced=False)
        return refused == ADMITTED

    def _replace(self, seen: Wanted, wanted: Wanted, enforced: bool, /) -> int | None:
        """Hold ``wanted``: ``ADMITTED``, or the resource that has no room. None: it does not hold ``seen`` any more."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a permit cannot be pickled or copied: two copies would release it twice")

    def __repr__(self) -> str:
        return f"<Permit {self.amounts}{' released' if self.released else ''}>"


def _adjust(permit: Permit, changes: Wanted, *, enforced: bool) -> int | None:
    """One try: ``ADMITTED``, the index of the resource that has no room, or None for a permit that holds nothing."""
    while not permit.released:
        seen = permit._wanted
        refused = permit._replace(seen, merged(seen, changes), enforced)
        if refused is not None:
            return refused
    return None
