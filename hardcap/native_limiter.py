"""The native limiter and permit, with the connection they need: the counterpart of portable_limiter.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardcap import native
from hardcap.amounts import ONE, Wanted, check_headroom
from hardcap.backend import Backend
from hardcap.config import Config
from hardcap.connection import Attaching, Connection
from hardcap.limiter import Limiter
from hardcap.native import Current, limiter_type
from hardcap.native_admission import NativeAdmission
from hardcap.permit import Permit


class NativeConnection(Current, Connection):
    """A connection whose admission in use the native limiter finds without asking Python.

    The native limiter reads plain calls by itself. Any other it hands to the method of its name here, which gives what
    is asked for and the headroom, or raises what the portable limiter would; ``admit``, to that of the class Limiter.
    """

    def reserve(self, amount: int = ONE, /, *, headroom: int = 0, **amounts: int) -> tuple[Wanted, int]:
        return self.wanted(amount, amounts), check_headroom(headroom)

    def release(self, amount: int = ONE, /, **amounts: int) -> tuple[Wanted, int]:
        return self.wanted(amount, amounts), 0


_limiter: Any = limiter_type(Limiter)
# A class derived from a Python one is tracked by the collector, which costs more than the rest of a permit. So the
# native permit is a class of its own, and counts as a Permit.
for _name in ("amounts", "adjust", "__reduce_ex__", "__repr__", "__doc__"):
    setattr(native.Permit, _name, Permit.__dict__[_name])
Permit.register(native.Permit)


def open_native(config: Config, backend: Backend, reopen: Callable[[Config], Any]) -> Limiter:
    """Attach with a native limiter."""
    connection = NativeConnection(config, backend, reopen)
    return _limiter(connection, NativeAdmission, native.Permit, Attaching)  # type: ignore[no-any-return]
