"""Every step of a native call with a rival right before it: no unit too many, none lost, and nothing left pending."""

from __future__ import annotations

from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import builds
from tests.support.native import needs_native
from tests.support.rivals import SCENARIOS

pytestmark = needs_native

HEADER = builds.ROOT / "tests" / "support" / "rival.h"
CODE = "from tests.support.rivals import explore\nexplore(directory, mode, backend)"


@pytest.mark.parametrize("mode", hardcap.Mode)
def test_a_rival_before_every_access(spawn: Spawn, segment_dir: Path, tmp_path: Path, mode: hardcap.Mode) -> None:
    child = spawn(env=builds.importing(builds.copy_package(tmp_path, ["-O1", "-include", str(HEADER)])))
    for backend in ("native", "atomics"):
        accesses = child.run(CODE, directory=str(segment_dir), mode=mode, backend=backend)
        assert accesses.keys() == {scenario.__name__ for scenario in SCENARIOS}
        assert min(accesses.values()) > 5, accesses
