"""The ASGI middleware in forked children: each counts in a slot of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Spawn
from tests.support.segments import directory_locked


@pytest.fixture(autouse=True)
def environment(configured: Callable[[object], None]) -> None:
    configured(2)


FORK = """
import asyncio, os
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import Exchange

async def app(scope, receive, send):
    shown = hardcap.inspect(name, directory)
    mine = [process for process in shown.processes if process.pid == os.getpid()]
    body = b"%d of %d" % (mine[0].held, shown.resources[0].in_flight)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})

def request():
    return asyncio.run(Exchange().run(counted)).body.decode()

import hardcap
counted = HardcapMiddleware(app)
answers = [request() if attached_before else ""]
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        os.write(writing, request().encode())
    finally:
        os._exit(0)
os.close(writing)
os.wait()
answers + [os.read(reading, 100).decode(), request()]
"""


@pytest.mark.parametrize("attached_before", [False, True])
def test_a_forked_child_counts_in_its_own_slot(
    spawn: Spawn, name: str, segment_dir: Path, attached_before: bool
) -> None:
    child = spawn()
    answers = child.run(FORK, name=name, directory=os.fspath(segment_dir), attached_before=attached_before)
    assert child.finish() == 0
    assert answers == ["1 of 1" if attached_before else "", "1 of 1", "1 of 1"]


FORK_WHILE_ATTACHING = """
import asyncio, os, threading, time, warnings
from hardcap.asgi import HardcapMiddleware
from tests.support.asgi import LAST, START, Exchange, sends

counted = HardcapMiddleware(sends(START, LAST))
statuses = []

def request():
    statuses.append(asyncio.run(Exchange().run(counted)).status)

serving = threading.Thread(target=request)
serving.start()
while "hardcap-attach" not in [thread.name for thread in threading.enumerate()]:
    time.sleep(0.001)
reading, writing = os.pipe()
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads, which is what this is about
if (forked := os.fork()) == 0:
    try:
        request()
        os.write(writing, bytes(str(statuses), "ascii"))
    finally:
        os._exit(0)
os.close(writing)
"""


def test_a_child_forked_while_its_parent_attaches_attaches_by_itself(spawn: Spawn, segment_dir: Path) -> None:
    child = spawn()
    with directory_locked(segment_dir):
        child.run(FORK_WHILE_ATTACHING)
    assert child.run("os.waitpid(forked, 0); os.read(reading, 100).decode()") == "[200]"
    assert child.run("serving.join(); statuses") == [200]
    assert child.finish() == 0
