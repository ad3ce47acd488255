"""What the deaths rely on. It fails where ptrace(2) is not permitted: nothing could be killed at an instruction."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Spawn
from tests.crash.conftest import needs_tracing
from tests.crash.probes import SIZE, TIMES

pytestmark = needs_tracing


def assert_stopped(before: list[int], after: list[int], *seen: int) -> None:
    """It went step by step, and whoever was killed before one did not make it."""
    assert len(before) >= 3
    assert before == after == sorted(before)
    assert set(before) == set(seen)


def test_stores_are_cut_off_at_each_instruction(spawn: Spawn) -> None:
    """Also where a child runs straight to an instruction that it passes more than once."""
    stepped, direct = (spawn().run(f"from tests.crash.probes import stores\nstores({way})") for way in (False, True))
    assert_stopped(*direct, *range(TIMES + 1))
    assert stepped == direct


def test_a_write_is_cut_off_at_each_system_call(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    before, after = spawn().run("from tests.crash.probes import writes\nwrites(path)", path=str(path))
    assert_stopped(before, after, 0, SIZE)
