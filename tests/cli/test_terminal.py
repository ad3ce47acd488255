"""Each command in a process and a terminal of its own, of 80 columns, on a live segment."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import hardcap
from tests.support.terminal import COLUMNS, Terminal, terminal

AT_ONCE = ("--interval", "0")
# What it is asked, and what is to be seen of it.
COMMANDS = {
    "status": (AT_ONCE, r"^requests +2 +1 +1 +0$"),
    "top": ((), r"{name} +requests +1/2 "),
    "set-limit": (("3",), "{name}: limit of requests is 3, was 2$"),
    "reap": ((), "{name}: 0 dead owners recovered$"),
    "verify": ((), "{name}: every invariant holds$"),
    "unlink": ((), "{name}: removed$"),
    "metrics": ((), r'hardcap_in_flight{{name="{name}",resource="requests"}} 1\.0$'),
    "check": ((), "ok   locks +a segment was built, locked, used and removed$"),
}


def ended(screen: Terminal) -> str:
    """What is on the screen when the process has ended, by itself or by ``q``."""
    assert screen.finish() == 0, screen.text
    assert "Warning" not in screen.text
    return screen.text


@pytest.mark.parametrize("command", COMMANDS)
def test_in_80_columns(name: str, segment_dir: Path, command: str) -> None:
    arguments, expected = COMMANDS[command]
    names = [] if command == "check" else [name]
    seen = re.compile(expected.format(name=name), re.MULTILINE)
    words = (command, *names, *arguments, "--dir", os.fspath(segment_dir))
    with hardcap.open(name, limit=2, directory=segment_dir) as limiter:
        assert limiter.reserve()
        if command == "unlink":
            limiter.close()
        with terminal("hardcap.cli", *words) as screen:
            if command == "top":
                screen.wait_until(lambda text: seen.search(text) is not None, expected)
                screen.press("q")
            assert seen.search(ended(screen))
            assert 0 < screen.widest <= COLUMNS


@pytest.mark.parametrize(("columns", "cut"), [({}, True), ({"COLUMNS": "160"}, False)])
def test_a_long_name_is_cut(name: str, segment_dir: Path, columns: dict[str, str], cut: bool) -> None:
    """And in a wider terminal it is not: a line that is too long would be seen."""
    long = name.ljust(64, "x")
    command = ("status", *AT_ONCE, "--dir", os.fspath(segment_dir))
    with hardcap.open(long, limit=2, directory=segment_dir), terminal("hardcap.cli", *command, env=columns) as screen:
        assert (long not in ended(screen)) is cut
        assert (screen.widest <= COLUMNS) is cut
