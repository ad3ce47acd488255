"""Limiter and permit in Python: the reference, and what runs where the native core does not."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Self

from hardcap.admission import ADMITTED
from hardcap.amounts import ONE, SINGLE, Wanted, check_headroom, difference
from hardcap.connection import Attaching, Connection
from hardcap.errors import ReleaseError, SegmentClosed
from hardcap.limiter import Limiter
from hardcap.permit import Permit


class PortableLimiter(Limiter):
    """The limiter on any words."""

    __slots__ = ("__weakref__", "_connection")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reserve(self, amount: int = ONE, /, *, headroom: int = 0, **amounts: int) -> bool:
        connection = self._connection
        try:
            admission = connection.live()  # closed is said before anything else
            wanted = SINGLE if amount is ONE and not amounts else connection.wanted(amount, amounts)
            if type(headroom) is not int or headroom:
                headroom = check_headroom(headroom)
            refused = admission.reserve(wanted, headroom)
            return refused == ADMITTED or connection.try_again(wanted, headroom, refused) == ADMITTED
        except Attaching:
            return False

    def release(self, amount: int = ONE, /, **amounts: int) -> None:
        wanted = SINGLE if amount is ONE and not amounts else self._connection.wanted(amount, amounts)
        self._connection.live().release(wanted)

    def _ask(self, wanted: Wanted, headroom: int, enforced: bool = True, /) -> Permit | int:
        permit = PortablePermit(self._connection, wanted)  # made first: whatever fails later, the units have an owner
        admission = permit._admission
        refused = admission.reserve(wanted, headroom) if enforced else admission.force(wanted)
        return permit._hand_out() if refused == ADMITTED else refused


class PortablePermit(Permit):
    """The permit on any words."""

    __slots__ = ("__weakref__", "_admission", "_connection", "_last", "_token")

    def __init__(self, connection: Connection, wanted: Wanted) -> None:
        self._connection = connection  # kept alive: one that is collected gives back all it holds
        self._admission = connection.live()
        self._last = wanted
        self._token: list[Wanted] = []  # nothing to release yet

    def _hand_out(self) -> Self:
        self._token.append(self._last)
        self._admission.permit_out(id(self), time.time_ns())
        return self

    @property
    def _wanted(self) -> Wanted:
        try:
            return self._token[0]
        except IndexError:
            return self._last

    @property
    def released(self) -> bool:
        return not self._token or self._admission.closed or self._admission.inherited

    def release(self) -> bool:
        if self._admission.inherited:
            return False
        try:
            self._last = self._token.pop()  # one step: whoever gets it releases
        except IndexError:
            return False
        try:
            self._admission.release(self._last)
        except SegmentClosed:
            return False
        finally:
            self._admission.permit_back(id(self))
        return True

    def _replace(self, seen: Wanted, wanted: Wanted, enforced: bool, /) -> int | None:
        admission, up, down = self._admission, difference(wanted, seen), difference(seen, wanted)
        try:
            with admission.visit():
                admission.check_held(down)
            refused = admission.take(up, enforced=enforced) if up else ADMITTED
            if refused != ADMITTED:
                return refused
            replaced = self._swap(seen, wanted)
            if surplus := down if replaced else up:
                admission.put_back(surplus)
        except SegmentClosed:
            return None
        except ReleaseError:
            if self._wanted is seen and not self.released:
                raise
            return None  # somebody was faster, and holds less by it
        return ADMITTED if replaced else None

    def _swap(self, seen: Wanted, wanted: Wanted) -> bool:
        """Unless it is released in the meantime, which takes the token and no lock, or adjusted, which takes both."""
        with self._admission.lock, contextlib.suppress(IndexError):
            if self._token[0] is seen:
                self._token[0] = wanted
                return True
        return False

    def __del__(self) -> None:
        if not getattr(self, "_token", None) or self.released or sys.is_finalizing():
            return
        with contextlib.suppress(SegmentClosed):
            self.release()
        self._connection.forgotten(self._admission, self._wanted, self)
