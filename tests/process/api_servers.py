"""Processes that count as vLLM's API servers do: spawned with the parent's counters, each with an index of its own.

Run inside a child of the test, which is their parent.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from hardcap.vllm import SharedAdmissionStats
from tests.support.processes import DEADLINE

SPAWN = multiprocessing.get_context("spawn")


class PlainStats:
    """The same with nothing but the array: a control, for it cannot know who is dead."""

    def __init__(self, addresses: dict[str, Any], count: int, index: int) -> None:
        self._counters, self._mine = addresses["mp_admission_counters"], index * 8

    def set_num_requests(self, count: int) -> None:
        self._counters[self._mine] = count

    def get_num_requests(self) -> int:
        return sum(self._counters)


class ApiServer:
    """One of them, told what to do over a pipe."""

    def __init__(self, kind: type[Any], counters: Any, count: int, index: int) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(kind, counters, count, index, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def post(self, requests: int) -> None:
        self._pipe.send(requests)

    def answer(self) -> int:
        """What it sees of all servers, once it has set what was posted."""
        assert self._pipe.poll(DEADLINE), "no answer"
        return int(self._pipe.recv())

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._pipe.close()


def _serve(kind: type[Any], counters: Any, count: int, index: int, pipe: Connection) -> None:
    stats: SharedAdmissionStats = kind({"mp_admission_counters": counters}, count, index)
    while True:
        stats.set_num_requests(pipe.recv())
        pipe.send(stats.get_num_requests())


class Team:
    """The parent: it has the counters, and a server for each index."""

    def __init__(self, kind: type[Any], count: int) -> None:
        self._kind, self._count = kind, count
        self._counters = SPAWN.RawArray("q", SharedAdmissionStats.num_counters(count))
        self._servers: dict[int, ApiServer] = {}

    def start(self, *indexes: int) -> None:
        for index in indexes:
            self._servers[index] = ApiServer(self._kind, self._counters, self._count, index)

    def set(self, requests: dict[int, int]) -> list[int]:
        """Each has so many, all at once; what they see."""
        told = [self._servers[index] for index in requests]
        for server, number in zip(told, requests.values(), strict=True):
            server.post(number)
        return [server.answer() for server in told]

    def kill(self, index: int) -> None:
        self._servers.pop(index).kill()
