"""Which words, and which core on them: the native one where it was built, else the package ``atomics``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from mmap import mmap
from typing import Any

from hardcap import extension
from hardcap.admission import Admission
from hardcap.approximate import Approximate
from hardcap.config import Mode
from hardcap.errors import BackendUnavailable
from hardcap.segment import Segment
from hardcap.strict import Strict
from hardcap.words import AtomicWords, PlainWords, require_atomics

log = logging.getLogger("hardcap")


@dataclass(frozen=True, slots=True)
class Backend:
    """How memory is changed: words for a mode over mapped memory, and the admission on a slot of them."""

    name: str
    words: Callable[[Mode, mmap], Any]
    admission: Callable[[Segment, int], Admission]


def choose(asked: str | None, segment: str) -> Backend:
    """The backend asked for; :class:`BackendUnavailable`, with the remedy, if ``segment`` cannot be used by it."""
    if asked in (None, "auto"):
        return _default(segment)
    if asked == "atomics":
        require_atomics(segment)
        return _ATOMICS
    if extension.native is None:
        remedy = "install hardcap-admission with a C compiler at hand, or leave backend at 'auto'"
        raise BackendUnavailable(segment, f"no native core ({extension.reason})", "backend 'native'", remedy)
    return _native()


def _default(segment: str) -> Backend:
    if extension.native is not None:
        return _native()
    try:
        require_atomics(segment)
    except BackendUnavailable as error:
        found = f"no native core ({extension.reason}), and {error.found}"
        raise BackendUnavailable(segment, found, error.expected, error.remedy) from error
    _tell_once(extension.reason)
    return _ATOMICS


@cache
def _tell_once(reason: str) -> None:
    log.info("the native core is not there (%s): the package atomics is used", reason)


def _atomic_words(mode: Mode, memory: mmap) -> AtomicWords | PlainWords:
    return AtomicWords(memory) if mode is Mode.strict else PlainWords(memory)


def _portable_admission(segment: Segment, slot: int) -> Admission:
    return (Strict if segment.shape.mode is Mode.strict else Approximate)(segment, slot)


_ATOMICS = Backend("atomics", _atomic_words, _portable_admission)


@cache
def _native() -> Backend:
    from hardcap.native import Words
    from hardcap.native_admission import NativeAdmission

    return Backend("native", lambda _mode, memory: Words(memory), NativeAdmission)
