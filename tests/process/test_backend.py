"""The package of atomic words: absent, broken, and at every place where a segment has a word."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

import hardcap
from hardcap import layout
from hardcap.words import AtomicWords
from tests.conftest import Spawn
from tests.support.processes import RemoteError, python_path

BROKEN = {
    "absent": "raise ModuleNotFoundError('no module of that name')",
    "import error": "raise ImportError('libpatomic.so: wrong ELF class')",
    "system error": "raise OSError('cannot load library')",
    "misaligned": """
UINT = 1
class AlignmentError(ValueError):
    pass
def atomicview(**_):
    raise AlignmentError('buffer is not 8-byte aligned')""",
    "unsupported": """
UINT = 1
class UnsupportedOperationException(RuntimeError):
    pass
def atomicview(**_):
    raise UnsupportedOperationException('no such operation')""",
}


def environment(tmp_path: Path, fault: str) -> dict[str, str]:
    """One in which ``import atomics`` finds this installation instead of the real one."""
    (tmp_path / "atomics.py").write_text(BROKEN[fault])
    return {"PYTHONPATH": python_path(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("fault", BROKEN)
def test_without_atomics_there_is_a_clear_error(
    spawn: Spawn, name: str, segment_dir: Path, tmp_path: Path, fault: str
) -> None:
    """B47: in both modes, never a silent fall back to another; no file left; importing works all the same."""
    child = spawn(env=environment(tmp_path, fault))
    child.run("import hardcap")
    code = "hardcap.open(name, limit=1, mode=mode, directory=directory, backend='atomics')"
    for mode in hardcap.Mode:
        with pytest.raises(RemoteError, match=r"BackendUnavailable.*atomics"):
            child.run(code, name=name, mode=mode, directory=os.fspath(segment_dir))
    assert os.listdir(segment_dir) == []
    assert child.finish() == 0


def test_atomics_is_not_loaded_by_the_import(spawn: Spawn) -> None:
    """B47"""
    assert spawn().run("import hardcap, sys\n'atomics' in sys.modules") is False


@pytest.mark.parametrize("slots", [1, 2, 3, 127, 128, 4096])
def test_every_atomic_word_at_every_slot(slots: int) -> None:
    """B47: each word that is changed by compare-and-swap is aligned, wherever its slot lies."""
    memory = mmap.mmap(-1, layout.segment_bytes(slots))
    words = AtomicWords(memory)
    for slot in {*range(0, slots, -(-slots // 100)), slots - 1}:
        for index in range(layout.MAX_RESOURCES):
            word = layout.slot_word(slot, index)
            assert words.compare_exchange(word, 0, slot + 1)
            assert words.fetch_add(word, 1) == slot + 1
            assert words.load(word) == slot + 2
    words.close()
    memory.close()
