"""Modes and backends that a process test runs with: over the whole of them, each mode and each backend."""

from __future__ import annotations

import itertools
import zlib

import pytest

import hardcap
from tests.support.backends import BACKENDS
from tests.support.forms import FULL

Kind = tuple[str, str]  # a mode and a backend

each_method = pytest.mark.parametrize(
    ("mode", "backend", "method"),
    [
        ("strict", BACKENDS[0], "fork"),
        ("strict", BACKENDS[-1], "spawn"),
        ("strict", BACKENDS[0], "forkserver"),
        ("approximate", BACKENDS[-1], "fork"),
    ],
)


def kinds(test: str) -> list[Kind]:
    """Both modes, on different backends: on which, depends on the test's name. In the long form both on each."""
    if FULL:
        return list(itertools.product(hardcap.Mode, BACKENDS))
    turn = zlib.crc32(test.encode())
    return [(mode, BACKENDS[(turn + place) % len(BACKENDS)]) for place, mode in enumerate(hardcap.Mode)]
