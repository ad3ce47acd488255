"""From a configuration to a limiter: the backend, the connection on it, and the limiter that goes with both."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hardcap.backend import Backend, choose
from hardcap.config import Config
from hardcap.connection import Connection
from hardcap.directory import Directory
from hardcap.limiter import Limiter
from hardcap.permit import Permit
from hardcap.portable import PortableLimiter

if TYPE_CHECKING:
    from collections.abc import Callable


def open_limiter(config: Config) -> Limiter:
    """Attach, or build and attach, as the configuration says."""
    if config.enforce is False:
        raise NotImplementedError("enforce=False is not there yet: leave it out")
    backend = choose(config.backend, Directory(config.directory).file(config.name))
    if backend.name == "native":
        return _native_opener()(config, backend)
    return PortableLimiter(Connection(config, backend, open_limiter))


@cache
def _native_opener() -> Callable[[Config, Backend], Limiter]:
    from hardcap.native import Core, Current, limiter_type, permit_type

    class NativeConnection(Current, Connection):
        """A connection whose admission in use the native limiter finds without asking Python."""

        def __init__(self, config: Config, backend: Backend) -> None:
            Current.__init__(self, Core)
            Connection.__init__(self, config, backend, open_limiter)

    limiter: Any = limiter_type(Limiter)
    permit = permit_type(Permit)
    return lambda config, backend: limiter(NativeConnection(config, backend), Current, permit)
