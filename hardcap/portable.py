"""Limiter and permit in Python: the reference, and what runs where the native core does not."""

from __future__ import annotations

import contextlib
import sys
import time

from hardcap.admission import ADMITTED
from hardcap.amounts import ONE, SINGLE, Wanted, check_headroom, check_timeout
from hardcap.connection import Connection
from hardcap.errors import SegmentClosed
from hardcap.limiter import Limiter
from hardcap.permit import Permit


class PortableLimiter(Limiter):
    """The limiter on any words."""

    __slots__ = ("__weakref__", "_connection")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reserve(self, amount: int = ONE, /, *, headroom: int = 0, **amounts: int) -> bool:
        connection = self._connection
        wanted = SINGLE if amount is ONE and not amounts else connection.wanted(amount, amounts)
        if type(headroom) is not int or headroom:
            connection.live()  # closed is said before anything else
            check_headroom(headroom)
        refused = connection.admission.reserve(wanted, headroom)
        return refused == ADMITTED or connection.try_again(wanted, headroom, refused) == ADMITTED

    def release(self, amount: int = ONE, /, **amounts: int) -> None:
        wanted = SINGLE if amount is ONE and not amounts else self._connection.wanted(amount, amounts)
        self._connection.admission.release(wanted)

    def admit(self, amount: int = ONE, /, *, timeout: float | None = 0.0, headroom: int = 0, **amounts: int) -> Permit:
        connection = self._connection
        wanted = connection.wanted(amount, amounts)
        check_headroom(headroom)
        check_timeout(timeout)
        permit = PortablePermit(connection, wanted)  # made first: whatever fails later, the units have an owner
        refused = connection.live().reserve(wanted, headroom)
        if refused != ADMITTED:
            refused = connection.try_again(wanted, headroom, refused)
        if refused != ADMITTED:
            raise connection.exceeded(wanted, refused)
        permit._token = [None]
        permit._admission.permit_out(id(permit), time.time_ns())
        return permit


class PortablePermit(Permit):
    """The permit on any words."""

    __slots__ = ("__weakref__", "_admission", "_connection", "_token", "_wanted")

    def __init__(self, connection: Connection, wanted: Wanted) -> None:
        self._connection = connection  # kept alive: one that is collected gives back all it holds
        self._admission = connection.live()
        self._wanted = wanted
        self._token: list[None] = []  # nothing to release yet

    @property
    def released(self) -> bool:
        return not self._token or self._admission.closed

    def release(self) -> bool:
        try:
            self._token.pop()  # one step: whoever gets it releases
        except IndexError:
            return False
        try:
            self._admission.release(self._wanted)
        except SegmentClosed:
            return False
        finally:
            self._admission.permit_back(id(self))
        return True

    def __del__(self) -> None:
        if not getattr(self, "_token", None) or self._admission.closed or sys.is_finalizing():
            return
        with contextlib.suppress(SegmentClosed):
            self.release()
        self._connection.forgotten(self._admission, self._wanted)
