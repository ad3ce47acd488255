"""One shared cap on what is in flight, for services that run as several processes on one host.

    limiter = hardcap.open("inference", limit=10)
    with limiter.admit():
        handle()

Layers, lowest first; a module imports only from those above it in this table:

    extension          the native core, if it is there
    errors             what can go wrong, one tree
    layout             the byte map of a segment
    settings           what each setting may be
    config             Config: arguments, environment, TOML
    amounts            what a caller asks for
    words              64-bit words: the seam, and the only import of atomics
    bell               the word by which a release wakes those who wait
    descriptors        open files that no forked child keeps
    locks              kernel locks: by them a process is known to live
    directory          the directory of segments, its lock, and what stands under a name
    header             the shape of a segment, as its header tells it
    publishing         how a new segment gets its name
    segment            one mapped segment
    removing           unlink, and retire under its users
    attaching          join the segment of a name, or build it
    slots              what a slot says of its owner
    viewing            files to look at: not attended
    recovery           sweep, return and settle
    operating          files to operate on: attended, without a slot
    ownership          who owns a slot
    admission          what both modes share
    strict             reserve and release by compare-and-swap
    approximate        reserve and release by the sum of the slots
    snapshot           the read-only view
    verification       which invariants a segment breaks
    native_admission   both modes in C
    overload           the line that tells of refusals, once a minute
    backend            which words, and which core on them
    connection         attached, closed, or inherited by a fork; refusals
    permit             what one reservation took
    waiting            who waits for room, and the thread that serves them
    limiter            Limiter: what users hold
    portable_limiter   limiter and permit in Python
    native_limiter     limiter and permit in C
    opening            from a configuration to a limiter
    source             where a middleware gets its limiter from
    arguments          what both middlewares take, checked
    refusal            what both answer to a request that is not let in
    messages           which of ASGI's end a response, and which refuse
    patience           an ASGI request that waits, while its client may leave
    asgi               the middleware for ASGI servers
    figures            what is exported of a segment
    prometheus         the collector for prometheus_client
    opentelemetry      the same figures as instruments
    vllm               the drop-in for vLLM's class
    wsgi               the middleware for WSGI servers
    cli                the command line, with a table of its own
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hardcap import removing as _removing
from hardcap import snapshot as _snapshot
from hardcap.backend import choose
from hardcap.config import Config, Mode
from hardcap.directory import Directory
from hardcap.errors import (
    BackendUnavailable,
    CapExceeded,
    ConfigError,
    HardcapError,
    LayoutMismatch,
    ModeMismatch,
    ReleaseError,
    SegmentClosed,
    SegmentError,
    SegmentRetired,
    SlotsExhausted,
)
from hardcap.limiter import Limiter
from hardcap.opening import open_limiter
from hardcap.permit import Permit
from hardcap.snapshot import ProcessSnapshot, ResourceSnapshot, Snapshot, Totals
from hardcap.verification import Finding
from hardcap.verification import verify as _verify
from hardcap.viewing import viewing as _viewing

__all__ = [
    "BackendUnavailable",
    "CapExceeded",
    "Config",
    "ConfigError",
    "Finding",
    "HardcapError",
    "LayoutMismatch",
    "Limiter",
    "Mode",
    "ModeMismatch",
    "Permit",
    "ProcessSnapshot",
    "ReleaseError",
    "ResourceSnapshot",
    "SegmentClosed",
    "SegmentError",
    "SegmentRetired",
    "SlotsExhausted",
    "Snapshot",
    "Totals",
    "inspect",
    "open",
    "unlink",
    "verify",
]


def __dir__() -> list[str]:
    """The interface, without the modules behind it."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def open(
    name_or_config: str | Config,
    /,
    *,
    limit: int | None = None,
    limits: Mapping[str, int] | None = None,
    mode: Mode | str | None = None,
    max_processes: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    permissions: int | None = None,
    backend: str | None = None,
    enforce: bool | None = None,
) -> Limiter:
    """Attach to the segment of that name, or build it, and claim a slot in it.

    ``limit=n`` stands for ``limits={"requests": n}``, in units. Strict mode (the default) never has more than the limit
    in flight; approximate mode at most ``limit + (W - 1) * a``, with W attached limiters and a the largest amount
    reserved at once. Without limit or mode it attaches to what is there; :class:`ConfigError` where nothing is.

    Raises :class:`ConfigError` before any file is touched, and :class:`SegmentError`, whose text names the file, what
    was found and what was expected: a process that cannot attach never serves uncapped.

    >>> limiter = hardcap.open("web", limit=2)
    >>> limiter.reserve(), limiter.reserve(), limiter.reserve()
    (True, True, False)
    """
    settings = {
        "limit": limit,
        "limits": limits,
        "mode": mode,
        "max_processes": max_processes,
        "directory": directory,
        "permissions": permissions,
        "backend": backend,
        "enforce": enforce,
    }
    if not isinstance(name_or_config, Config):
        return open_limiter(Config(name_or_config, **settings))  # type: ignore[arg-type]
    given = [key for key, value in settings.items() if value is not None]
    if given:
        raise ConfigError(given[0], settings[given[0]], "nothing beside a Config, which holds all settings")
    return open_limiter(name_or_config)


def inspect(name: str, directory: str | os.PathLike[str] | None = None) -> Snapshot:
    """Read a segment without attaching to it. Raises :class:`SegmentError` where there is none.

    >>> limiter = hardcap.open("web", limit=2)
    >>> limiter.reserve()
    True
    >>> hardcap.inspect("web").resources[0].in_flight
    1
    """
    Config(name, directory=directory)
    with _viewing(name, directory) as segment:
        return _snapshot.read(segment, choose(None, segment.path).name)


def verify(name: str, directory: str | os.PathLike[str] | None = None) -> list[Finding]:
    """:meth:`Limiter.verify` without attaching. Raises :class:`SegmentError` where nothing stands that could be one.

    >>> limiter = hardcap.open("web", limit=2)
    >>> hardcap.verify("web")
    []
    """
    Config(name, directory=directory)
    return _verify(name, directory)


def unlink(name: str, directory: str | os.PathLike[str] | None = None, force: bool = False) -> None:
    """Remove a segment. :class:`SegmentError` where there is none, or while somebody is attached.

    With ``force`` it is retired under its users: their next refusal raises :class:`SegmentRetired`, and until the last
    of them has let go, the old cap and a new one of that name both admit.

    >>> limiter = hardcap.open("web", limit=2)
    >>> limiter.close()
    >>> hardcap.unlink("web")
    """
    Config(name, directory=directory)
    path = Directory.of_operator(directory).file(name)
    _removing.unlink(name, directory, choose(None, path).words, force=force)
