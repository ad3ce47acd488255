"""``hardcap top`` in a terminal of 80 columns, on live processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Hardcap
from tests.conftest import Spawn
from tests.support.terminal import COLUMNS, terminal

FAST = ("--interval", "0.1")
LOW, NONE = "[▁-▇]", "▁"  # bars


def test_it_lives(attached: Spawn, name: str, segment_dir: Path) -> None:
    """It follows what is in flight, draws it, pauses, sorts, and leaves the terminal as it was."""
    worker = attached(limit=8)
    worker.run("limiter.reserve(3)")
    with terminal("hardcap.cli", "top", "--dir", os.fspath(segment_dir), *FAST) as screen:
        screen.wait_until(lambda text: re.search(rf"{name} .* 3/8  {LOW}+  +0  {NONE}+ ", text) is not None, "3 of 8")
        worker.run("limiter.reserve(5), limiter.reserve()")
        screen.wait_until(lambda text: re.search(rf" 8/8  {LOW}*█+ ", text) is not None, "full")
        screen.wait_until(lambda text: re.search(rf" 8/8 .* 0  {NONE}*█{NONE}+ ", text) is not None, "one was refused")
        screen.press("p")
        screen.wait_until(lambda text: text.startswith("paused"), "paused")
        worker.run("limiter.release(8)")
        screen.press("s")
        screen.wait_until(lambda text: "by in flight" in text, "another order")
        assert "8/8" in screen.text
        screen.press("r")
        screen.wait_until(lambda text: "reversed" in text, "reversed")
        screen.press("p")
        screen.wait_until(lambda text: "0/8" in text, "idle")
        screen.press("q")
        assert screen.finish() == 0
    assert b"\x1b[?1049l" in screen.written and b"\x1b[?25h" in screen.written  # the screen and the cursor are back
    assert 0 < screen.widest <= COLUMNS


def test_one_segment_shows_who_holds_what(attached: Spawn, name: str, segment_dir: Path) -> None:
    worker = attached(limits={"requests": 8, "tokens": 100})
    worker.run("limiter.reserve(3, tokens=40)")
    with terminal("hardcap.cli", "top", name, "--dir", os.fspath(segment_dir), *FAST) as screen:
        screen.wait_until(lambda text: f"{worker.pid}  alive" in text and "40/100" in text, "its process")
        screen.press("\x03")
        assert screen.finish() == 130


def test_segments_come_and_go(attached: Spawn, name: str, segment_dir: Path) -> None:
    with terminal("hardcap.cli", "top", "--dir", os.fspath(segment_dir), *FAST) as screen:
        screen.wait_until(lambda text: "no segments" in text, "nothing yet")
        attached(limit=1)
        screen.wait_until(lambda text: name in text, "the new one")
        (segment_dir / name).unlink()
        screen.wait_until(lambda text: "no segments" in text, "nothing any more")
        screen.press("q")
        assert screen.finish() == 0


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_without_colour(attached: Spawn, name: str, segment_dir: Path, env: dict[str, str], coloured: bool) -> None:
    attached(limit=1).run("limiter.reserve()")
    with terminal("hardcap.cli", "top", "--dir", os.fspath(segment_dir), *FAST, env=env) as screen:
        screen.wait_until(lambda text: f"{name}  requests" in text and "1/1" in text, "full")
        screen.press("q")
        assert screen.finish() == 0
    assert (re.search(rb"\x1b\[[0-9;]*3[0-9]", screen.written) is not None) is coloured


def test_a_terminal_that_moves_no_cursor_is_written_to_once(attached: Spawn, name: str, segment_dir: Path) -> None:
    attached(limit=1).run("limiter.reserve()")
    command = ("top", "--dir", os.fspath(segment_dir), *FAST)
    with terminal("hardcap.cli", *command, env={"TERM": "dumb"}) as screen:
        assert screen.finish() == 0
    assert re.search(rf"{name} +requests +1 +1 ", screen.text)
    assert b"\x1b" not in screen.written


def test_piped_it_prints_once(run: Hardcap, attached: Spawn, name: str) -> None:
    attached(limit=2).run("limiter.reserve()")
    done = run("top", *FAST)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].split()[:4] == [name, "requests", "2", "1"]
