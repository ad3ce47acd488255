"""A package broken in one way does not survive the same deaths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.conftest import Kill, needs_tracing
from tests.crash.faults import FAULTS, Fault
from tests.support.processes import RemoteError

pytestmark = needs_tracing


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(kill: Kill, tmp_path: Path, fault: Fault) -> None:
    with pytest.raises(RemoteError, match=r"killed before point \d+: (AssertionError|SegmentError)"):
        kill(fault.group, 3, env=fault.copy(tmp_path))
