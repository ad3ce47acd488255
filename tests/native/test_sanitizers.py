"""Control of `make sanitize`: a fault put into a copy ends the process that meets it, with a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Spawn
from tests.support import builds
from tests.support.native import needs_native

pytestmark = [needs_native, pytest.mark.skipif(not builds.sanitizers(), reason=f"no libasan of {builds.compiler()}")]

PLANTS = {
    "a column that leaves the words": ("(self->count - 1 - first) / step", "(self->count - first) / step"),
    "a permit used after it is freed": (
        "PyObject_Free(object); /*",
        "PyObject_Free(object), self->out = false; /*",
    ),
    "a shift by all bits": ("return word >> 32;", "return word >> (word + 64);"),
}
REPORTS = {
    "a column that leaves the words": "AddressSanitizer: heap-buffer-overflow",
    "a permit used after it is freed": "AddressSanitizer: heap-use-after-free",
    "a shift by all bits": "runtime error: shift exponent",
}
CODE = """
import hardcap
from hardcap.native import Words
with hardcap.open("planted", limit=2, directory=directory, backend="native") as limiter:
    with limiter.admit():
        pass
Words(bytearray(80)).column(0, 11, 1)
"""


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_reported(spawn: Spawn, segment_dir: Path, tmp_path: Path, plant: str) -> None:
    copy = builds.copy_package(tmp_path, (*builds.SANITIZED, "-O0"), PLANTS[plant])
    child = spawn(noisy=True, env=builds.importing(copy) | builds.sanitizing())
    with pytest.raises(EOFError):
        child.run(CODE, directory=str(segment_dir))
    assert REPORTS[plant] in child.stderr
