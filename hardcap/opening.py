"""From a configuration to a limiter: the backend, the connection on it, and the limiter that goes with both."""

from __future__ import annotations

import os
from collections.abc import Callable

from hardcap.backend import Backend, choose
from hardcap.config import Config
from hardcap.connection import Connection
from hardcap.directory import Directory
from hardcap.limiter import Limiter
from hardcap.portable_limiter import PortableLimiter


def check(config: Config) -> Backend:
    """The backend for a configuration, loaded; an error if this machine or this version cannot do what it asks for."""
    backend = choose(config.backend, Directory.of(config).file(config.name))
    if backend.name == "native":
        _native_opener()
    return backend


def path_of(given: Limiter | Config) -> str:
    """The file of the segment that a limiter is attached to, or that a configuration leads to, by whatever path."""
    config = given if isinstance(given, Config) else given._connection.config
    return os.path.join(os.path.realpath(Directory.of(config).path), config.name)


def open_limiter(config: Config) -> Limiter:
    """Attach, or build and attach, as the configuration says."""
    backend = check(config)
    if backend.name == "native":
        return _native_opener()(config, backend, open_limiter)
    return PortableLimiter(Connection(config, backend, open_limiter))


def _native_opener() -> Callable[[Config, Backend, Callable[[Config], Limiter]], Limiter]:
    """Imported by whoever checks first, not in a thread that attaches: a fork amid it would leave the child half of it.
    Where there is no native core ``native_limiter`` is never imported."""
    from hardcap.native_limiter import open_native

    return open_native
