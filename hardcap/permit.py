"""A permit: what one reservation took, to be given back once."""

from __future__ import annotations

from abc import ABC
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from hardcap.admission import Admission
    from hardcap.amounts import Wanted


class Permit(ABC):
    """Units held, from ``Limiter.admit`` until :meth:`release`; a context manager.

    It belongs to the process that took it: in a forked child it neither releases nor warns. It cannot be pickled or
    copied. Garbage-collected while held, it is released, with a ``ResourceWarning`` (silently at interpreter exit).
    """

    __slots__ = ()

    _admission: Admission
    _wanted: Wanted

    @property
    def amounts(self) -> dict[str, int]:
        """Units by resource, those taken only."""
        names = self._admission.segment.shape.resources
        return {names[index]: units for index, units in self._wanted}

    @property
    def released(self) -> bool:
        """Whether nothing is held by it any more: released, or its limiter closed, or inherited by a fork."""
        raise NotImplementedError

    def release(self) -> bool:
        """Give the units back. True the first time, False ever after, from any thread.

        False too once its limiter is closed (closing gave them back), and in a forked child (the parent holds them).
        """
        raise NotImplementedError

    def adjust(self, **amounts: int) -> bool:
        """Not there yet: raises ``NotImplementedError``."""
        raise NotImplementedError("permit.adjust is not there yet: release the permit and admit the new amounts")

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
