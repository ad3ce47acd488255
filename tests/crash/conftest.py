"""Groups of deaths, caused by a conductor; what came of them is told at the end of the run."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Spawn
from tests.crash.campaign import Outcome
from tests.crash.suite import Group, conduct
from tests.support.native import needs_native

Kill = Callable[..., Outcome]

_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the tracer knows the registers of x86-64 only")
needs_tracing = [needs_native, _x86]


@pytest.fixture
def kill(spawn: Spawn, segment_dir: Path, record_property: Callable[[str, object], None]) -> Kill:
    """``kill(group, size=3)``: at so many points of each scenario, chosen by chance, and at all that look new."""

    def run(group: Group, size: int, *, env: dict[str, str] | None = None) -> Outcome:
        total = Outcome()
        for outcome in conduct(spawn(env=env), group, segment_dir, size):
            total += outcome
        what = f"{group.kind}, {group.mode}, {group.resources} resources, {group.backend}"
        record_property("told", f"{what}: {total.kills} kills, {total.pending} left pending, all recovered")
        return total

    return run
