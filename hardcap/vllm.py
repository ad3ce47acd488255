"""A drop-in for the class by which vLLM's API servers tell one another how many requests each has in flight.

vLLM's parent allocates an array of counters and hands it to each server that it spawns. Here that array only names
the segment: whoever needs it first writes a random number into a word that vLLM leaves unused. The counts are in the
segment, in approximate mode, where the kernel tells which of the servers are dead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import threading
import weakref
from collections.abc import MutableMapping
from typing import Any, Final, Protocol

import hardcap
from hardcap.config import Config
from hardcap.directory import Directory
from hardcap.errors import ConfigError, SegmentError, SegmentRetired
from hardcap.layout import CACHE_LINE, DEFAULT_SLOTS, MAX_AMOUNT, MAX_LIMIT, WORD
from hardcap.settings import check_integer

__all__ = ["SharedAdmissionStats"]

_KEY: Final = "mp_admission_counters"
_TOKEN: Final = 1  # the word of the first server's cache line that holds the number; its count would be word 0
_NAME: Final = re.compile(r"vllm-[0-9a-f]{16}")


class Counters(Protocol):
    """What vLLM's parent allocates: ``num_counters`` signed 64-bit integers, zero at first, shared by all servers."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, value: int, /) -> None: ...


class SharedAdmissionStats:
    """How many requests all API servers of one vLLM have in flight.

    ``client_addresses`` holds the counters that the parent allocated, which are taken out of it; without them this
    server counts alone. ``client_count`` and ``client_index`` are as in vLLM; each object has a slot of its own, so
    the index is not needed to tell them apart. In a forked child the slot is the parent's, and the child's count
    begins at 0.

    A server that was killed, in whatever manner, counts no more from the next :meth:`get_num_requests` on. The cap
    that vLLM makes of it stays approximate: it asks first and counts later. The environment says where the segment
    is (``HARDCAP_DIR``), and with which backend: :class:`ConfigError` if it cannot be read, :class:`SegmentError` where
    there can be none.

    >>> addresses = {"mp_admission_counters": [0] * SharedAdmissionStats.num_counters(2)}
    >>> one, other = (SharedAdmissionStats(dict(addresses), 2, index) for index in range(2))
    >>> one.set_num_requests(3), other.set_num_requests(4)
    (None, None)
    >>> one.get_num_requests()
    7
    """

    def __init__(
        self, client_addresses: MutableMapping[str, Any] | None, client_count: int = 1, client_index: int = 0
    ) -> None:
        counters = None if client_addresses is None else client_addresses.pop(_KEY, None)
        self._config = _config([0] * self.num_counters(1) if counters is None else counters, client_count)
        self._limiter = self._open()
        self._turn = threading.RLock()

    @classmethod
    def num_counters(cls, client_count: int) -> int:
        """How many 64-bit integers the parent allocates for that many servers: a cache line each."""
        return client_count * (CACHE_LINE // WORD)

    def set_num_requests(self, count: int) -> None:
        """Say how many requests this server has in flight: 0 to 2**31 - 1, else :class:`ConfigError`."""
        count = check_integer("count", count, 0, MAX_AMOUNT)
        with self._turn:
            try:
                self._set(count)
            except SegmentRetired:  # unlink --force
                self._limiter.close()
                self._limiter = self._open()
                self._set(count)

    def get_num_requests(self) -> int:
        """How many requests all living servers have in flight."""
        self._limiter.reap()
        return self._limiter.in_flight

    def _open(self) -> hardcap.Limiter:
        """Closed with this object, which has no close of its own."""
        limiter = hardcap.open(self._config)
        weakref.finalize(self, limiter.close).atexit = False
        return limiter

    def _set(self, count: int) -> None:
        while more := count - self._limiter.held:  # again: a signal handler may have said otherwise meanwhile
            if more < 0:
                self._limiter.release(-more)
            elif not self._limiter.reserve(more):
                raise ConfigError("count", count, f"at most {MAX_LIMIT} of all servers together")


def _config(counters: Counters, client_count: int) -> Config:
    fixed = {"HARDCAP_NAME": "vllm", "HARDCAP_LIMIT": str(MAX_LIMIT), "HARDCAP_MODE": "approximate"}
    config = Config.from_env(os.environ | fixed)
    slots = config.max_processes or max(DEFAULT_SLOTS, 2 * client_count)  # two generations during a restart
    return dataclasses.replace(config, name=_agreed_name(counters, config), max_processes=slots)


def _agreed_name(counters: Counters, config: Config) -> str:
    """The same for all who have these counters: under the directory's lock it is one step to look and to write."""
    directory = Directory.of(config)
    with directory.locked(create=True):
        token = counters[_TOKEN] = counters[_TOKEN] or 1 + secrets.randbelow(2**63 - 1)
    _remove_old(directory.path)
    return f"vllm-{token:016x}"


def _remove_old(directory: str) -> None:
    """Segments of servers that are gone: the numbers of theirs never come again."""
    for name in filter(_NAME.fullmatch, os.listdir(directory)):
        with contextlib.suppress(SegmentError):  # somebody is attached, or was faster
            hardcap.unlink(name, directory)
