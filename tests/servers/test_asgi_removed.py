"""The name of a segment removed or given away under the load of four uvicorn workers: each moves, and says so once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import hardcap
from hardcap import layout
from tests.servers.conftest import Env
from tests.support.processes import eventually
from tests.support.segments import mapped
from tests.support.servers import uvicorn
from tests.support.streams import Streams

APP = "tests.support.held_app:app"
WORKERS = 4


def unlinked_by_force(path: Path) -> None:
    hardcap.unlink(path.name, path.parent, force=True)


def replaced(path: Path) -> None:
    """By another segment, which nobody attends."""
    hardcap.open("other", limit=WORKERS, directory=path.parent).close()
    (path.parent / "other").rename(path)


REMOVALS: dict[Callable[[Path], object], str] = {
    unlinked_by_force: "it retired by unlink --force",
    os.unlink: "its file removed under its users",
    replaced: "its file removed under its users",
}


@pytest.mark.parametrize("remove", REMOVALS, ids=lambda remove: str(remove.__name__))
def test_b40_every_worker_opens_the_new_one(
    env: Env, name: str, segment_dir: Path, tmp_path: Path, remove: Callable[[Path], object]
) -> None:
    """Each worker holds one of the old segment's units, and one of the new one's; all go back where they were taken."""
    path = segment_dir / name
    with uvicorn(APP, tmp_path, workers=WORKERS, env=env(WORKERS)) as server, Streams(server) as old:
        workers = server.started
        old.hold_one_of_each(workers)
        with mapped(path) as words, Streams(server) as new:
            assert units(words) == WORKERS
            remove(path)
            new.hold_one_of_each(workers)
            assert server.holders == 2 * WORKERS
            shown = hardcap.inspect(name, segment_dir)
            assert {process.pid: process.held for process in shown.processes} == dict.fromkeys(workers, 1)
            assert units(words) == WORKERS
            server.let_go()
            assert all(old.end(worker).endswith(b"end") for worker in workers)
            eventually(lambda: units(words) == 0, "the old units are back")
            assert all(new.end(worker).endswith(b"end") for worker in workers)
        eventually(lambda: hardcap.inspect(name, segment_dir).resources[0].in_flight == 0, "the new ones too")
        line = f"segment '{path}': found {REMOVALS[remove]}, expected a segment in use; open the name again"
        assert server.log.count(line) == server.log.count("open the name again") == WORKERS


def units(words: memoryview) -> int:
    """In flight, by the segment's own memory: its name may be another's."""
    return layout.low(words[layout.global_word(0)])
