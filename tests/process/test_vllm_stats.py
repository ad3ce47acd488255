"""The drop-in for vLLM's shared admission stats: what that class does, and what it cannot do after a kill."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap.vllm import SharedAdmissionStats
from tests.conftest import Spawn
from tests.support.processes import Child, eventually

KEY = "mp_admission_counters"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, segment_dir: Path) -> None:
    monkeypatch.setenv("HARDCAP_DIR", os.fspath(segment_dir))


def counters_of(count: int) -> Any:
    return multiprocessing.RawArray("q", SharedAdmissionStats.num_counters(count))


def stats_of(count: int, counters: Any = None) -> list[SharedAdmissionStats]:
    counters = counters or counters_of(count)
    return [SharedAdmissionStats({KEY: counters}, count, index) for index in range(count)]


def test_a_server_has_a_cache_line_of_counters() -> None:
    assert [SharedAdmissionStats.num_counters(count) for count in (1, 2, 4)] == [8, 16, 32]


def test_each_says_what_it_has_and_sees_what_all_have() -> None:
    one, two = stats_of(2)
    one.set_num_requests(2)
    assert one.get_num_requests() == 2
    two.set_num_requests(3)
    assert one.get_num_requests() == two.get_num_requests() == 5
    one.set_num_requests(1)
    assert two.get_num_requests() == 4
    for stats in (one, two):
        stats.set_num_requests(0)
    assert one.get_num_requests() == 0


def test_the_counters_are_taken_out_of_the_addresses() -> None:
    addresses = {KEY: counters_of(1), "input_address": "ipc://x"}
    SharedAdmissionStats(addresses)
    assert addresses == {"input_address": "ipc://x"}


@pytest.mark.parametrize("addresses", [None, {}, {KEY: None}])
def test_a_server_without_counters_counts_alone(addresses: dict[str, Any] | None) -> None:
    one, two = SharedAdmissionStats(addresses), SharedAdmissionStats(addresses)
    one.set_num_requests(3)
    assert (one.get_num_requests(), two.get_num_requests()) == (3, 0)


def test_other_counters_are_another_count(monkeypatch: pytest.MonkeyPatch, segment_dir: Path, name: str) -> None:
    """And none of them is the cap of the middleware, which the same environment configures."""
    monkeypatch.setenv("HARDCAP_NAME", name)
    monkeypatch.setenv("HARDCAP_LIMIT", "1")
    with hardcap.open(hardcap.Config.from_env()) as cap:
        (one,), (two,) = stats_of(1), stats_of(1)
        one.set_num_requests(9)
        assert (one.get_num_requests(), two.get_num_requests(), cap.in_flight) == (9, 0, 0)


@pytest.mark.parametrize("count", [-1, True, 1.0, 2**31])
def test_what_is_no_count_is_refused(count: Any) -> None:
    (stats,) = stats_of(1)
    stats.set_num_requests(2)
    with pytest.raises(ValueError, match="count is"):
        stats.set_num_requests(count)
    assert stats.get_num_requests() == 2


def team_of(spawn: Spawn, count: int, kind: str = "SharedAdmissionStats") -> Child:
    """The parent of that many servers, none of which has started."""
    parent = spawn()
    parent.run(f"from tests.process.api_servers import *\nteam = Team({kind}, {count})")
    return parent


def test_spawned_servers_agree_and_a_killed_one_counts_no_more(spawn: Spawn, segment_dir: Path) -> None:
    """Three, which find one another all at once; then one is killed, and one takes its place under the same index."""
    parent = team_of(spawn, 3)
    parent.run("team.start(0, 1, 2)")
    assert max(parent.run("team.set({0: 1, 1: 2, 2: 3})")) == 1 + 2 + 3
    (segment,) = segment_dir.iterdir()
    assert hardcap.inspect(segment.name, segment_dir).resources[0].in_flight == 6
    parent.run("team.kill(2)")
    assert parent.run("team.set({0: 0})") == [2]
    parent.run("team.start(2)")
    assert parent.run("team.set({2: 4})") == [6]
    assert list(segment_dir.iterdir()) == [segment]


def test_the_array_alone_keeps_what_a_killed_one_had(spawn: Spawn) -> None:
    """The control: the same steps see the fault where it is."""
    parent = team_of(spawn, 2, "PlainStats")
    parent.run("team.start(0, 1)")
    assert max(parent.run("team.set({0: 1, 1: 3})")) == 4
    parent.run("team.kill(1)")
    assert parent.run("team.set({0: 0})") == [3]


def test_segments_of_servers_that_are_gone_do_not_pile_up(spawn: Spawn, segment_dir: Path) -> None:
    """However they went. One that is attended, and a file that is not ours, stay."""
    (living,) = stats_of(1)
    living.set_num_requests(1)
    (segment_dir / "vllm-chat").touch()
    for end in ("team.kill(0)", "None"):
        parent = team_of(spawn, 1)
        parent.run("team.start(0)")
        assert parent.run("team.set({0: 1})") == [1]
        parent.run(end)
        assert parent.finish() == 0
    assert len(list(segment_dir.iterdir())) == 2 + 1
    assert living.get_num_requests() == 1


def test_threads_may_set_and_the_last_one_is_right() -> None:
    (stats,) = stats_of(1)
    threads = [threading.Thread(target=_set_often, args=(stats, seed)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats.set_num_requests(7)
    assert stats.get_num_requests() == 7


def _set_often(stats: SharedAdmissionStats, seed: int) -> None:
    for number in range(200):
        stats.set_num_requests((number * 7 + seed) % 11)


def test_a_forked_child_has_a_count_of_its_own(spawn: Spawn, segment_dir: Path) -> None:
    child = spawn(env={"HARDCAP_DIR": os.fspath(segment_dir)})
    child.run("import os\nfrom hardcap.vllm import SharedAdmissionStats\nstats = SharedAdmissionStats(None)")
    child.run("stats.set_num_requests(2)")
    child.run(
        "if not (pid := os.fork()):\n    stats.set_num_requests(5)\n    os._exit(stats.get_num_requests())\n"
        "status = os.waitpid(pid, 0)[1]"
    )
    assert child.run("os.waitstatus_to_exitcode(status), stats.get_num_requests()") == [7, 2]


def test_a_segment_removed_by_force_is_made_anew(segment_dir: Path) -> None:
    one, two = stats_of(2)
    one.set_num_requests(2)
    two.set_num_requests(3)
    (segment,) = segment_dir.iterdir()
    hardcap.unlink(segment.name, segment_dir, force=True)
    one.set_num_requests(4)
    two.set_num_requests(5)
    eventually(lambda: one.get_num_requests() == two.get_num_requests() == 9, "both are in the new one")


def test_there_is_room_for_two_generations_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardcap.vllm.DEFAULT_SLOTS", 2)
    counters = counters_of(3)
    generations = stats_of(3, counters) + stats_of(3, counters)
    for stats in generations:
        stats.set_num_requests(1)
    assert generations[0].get_num_requests() == 6
    with pytest.raises(hardcap.SlotsExhausted):
        SharedAdmissionStats({KEY: counters}, 3, 0)


def test_a_segment_that_was_removed_by_force_keeps_nothing_of_it(segment_dir: Path) -> None:
    (stats,) = stats_of(1)
    for count in (1, 2, 3):
        old = stats._limiter
        hardcap.unlink(old.name, segment_dir, force=True)
        stats.set_num_requests(count)
        assert old._connection.closed
        assert stats.get_num_requests() == count
