"""A permit: what one reservation took, to be given back once."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from types import TracebackType
from typing import NoReturn

from hardcap.amounts import Wanted
from hardcap.connection import Connection
from hardcap.errors import SegmentClosed


class Permit:
    """Units held, from ``Limiter.admit`` until :meth:`release`; a context manager.

    It belongs to the process that took it: in a forked child it neither releases nor warns. It cannot be pickled or
    copied. Garbage-collected while held, it is released, with a ``ResourceWarning`` (silently at interpreter exit).
    """

    __slots__ = ("__weakref__", "_admission", "_connection", "_token", "_wanted")

    def __init__(self, connection: Connection, wanted: Wanted) -> None:
        self._connection = connection  # kept alive: one that is collected gives back all it holds
        self._admission = connection.live()
        self._wanted = wanted
        self._token = [None]
        self._admission.permit_out(id(self), time.time_ns())

    @property
    def amounts(self) -> dict[str, int]:
        """Units by resource, those taken only."""
        names = self._admission.segment.shape.resources
        return {names[index]: units for index, units in self._wanted}

    @property
    def released(self) -> bool:
        """Whether nothing is held by it any more: released, or its limiter closed, or inherited by a fork."""
        return not self._token or self._admission.closed

    def release(self) -> bool:
        """Give the units back. True the first time, False ever after, from any thread.

        False too once its limiter is closed (closing gave them back), and in a forked child (the parent holds them).
        """
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

    def adjust(self, **amounts: int) -> bool:
        """Not there yet: raises ``NotImplementedError``."""
        raise NotImplementedError("permit.adjust is not there yet: release the permit and admit the new amounts")

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a permit cannot be pickled or copied: two copies would release it twice")

    def __repr__(self) -> str:
        return f"<Permit {self.amounts}{' released' if self.released else ''}>"

    def __del__(self) -> None:
        if not getattr(self, "_token", None) or self._admission.closed or sys.is_finalizing():
            return
        text = f"{self!r} of limiter '{self._admission.segment.name}' was never released"
        with contextlib.suppress(SegmentClosed):
            self.release()
        warnings.warn(text, ResourceWarning, source=self, stacklevel=2)
