"""No call keeps anything: no reference, no block, no memory, over very many calls, in the long form a million."""

from __future__ import annotations

from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import builds
from tests.support.native import needs_native
from tests.support.references import OPERATIONS

pytestmark = needs_native

CODE = "from tests.support.references import kept\nkept(operation, directory, mode)"


@pytest.mark.parametrize("mode", hardcap.Mode)
def test_nothing_is_kept(spawn: Spawn, segment_dir: Path, mode: str) -> None:
    child = spawn()
    found = {op: child.run(CODE, operation=op, directory=str(segment_dir), mode=mode) for op in OPERATIONS}
    assert found == {operation: {} for operation in OPERATIONS}


HANDED_OUT = "    permit_hand_out(self);\n    return true;"
PLANTS = {
    "a permit": (HANDED_OUT, HANDED_OUT.replace("return", "Py_INCREF((PyObject *)self);\n    return")),
    "pairs of a refusal": ("refused);\n    Py_XDECREF(pairs);\n    long again", "refused);\n    long again"),
    "the admission": ("Py_CLEAR(self->core);\n    PyTypeObject", "PyTypeObject"),
    "a copy of the words": ("    free(self->copy);\n", ""),
}


@pytest.mark.parametrize(
    ("plant", "operation", "what"),
    [
        ("a permit", "block", "blocks"),
        ("pairs of a refusal", "refused", "blocks"),
        ("the admission", "block", "references to admission"),
        ("a copy of the words", "words", "resident bytes"),
    ],
)
def test_a_leak_is_seen(spawn: Spawn, segment_dir: Path, tmp_path: Path, plant: str, operation: str, what: str) -> None:
    """Control: one leak, put into a copy, is found by the same look."""
    env = builds.importing(builds.copy_package(tmp_path, ["-O0"], PLANTS[plant]))
    assert what in spawn(env=env).run(CODE, operation=operation, directory=str(segment_dir), mode="strict")
