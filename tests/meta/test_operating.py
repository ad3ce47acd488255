"""The operators' page: its commands, in its order, on a live segment, say what the page shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.conftest import Spawn
from tests.support.processes import DEADLINE, ROOT, python_path

BLOCKS = re.findall(
    r"^```console\n(.*?)^```$", (ROOT / "hardcap" / "OPERATING.md").read_text(), re.MULTILINE | re.DOTALL
)
SHOWN = [tuple(shown.split("\n", 1)) for block in BLOCKS for shown in re.split(r"^\$ hardcap ", block, flags=re.M)[1:]]
DONE = "--- done: {}\n"
# In one process, since what takes time is its start.
COMMANDS = f"""
import json, sys
from hardcap.cli.main import main
for argv in json.load(sys.stdin):
    status = main(argv)
    print({DONE!r}.format(status), end="", flush=True)
"""


def shape(text: str) -> list[list[str]]:
    """The words, whatever the figures, the widths, what this machine is called, and whether it had a compiler."""
    found = re.sub(r"'[^']*'|Linux .*|(?<=backend) .*|\d[\d.,]*( us| ms| s)?|─+", " #", text)
    return [line.split() for line in found.splitlines()]


def said(commands: list[str], directory: Path) -> list[str]:
    """What each of them wrote, stdout and stderr as they came."""
    argvs = [(command, "--dir", os.fspath(directory), *rest) for command, *rest in map(shlex.split, commands)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COMMANDS],
        input=json.dumps(argvs),
        env=os.environ | {"PYTHONPATH": python_path(), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
    )
    *outputs, rest = done.stdout.split(DONE.format(0))
    assert (done.returncode, rest) == (0, "")
    return outputs


def test_the_page_shows_what_the_commands_say(spawn: Spawn, segment_dir: Path) -> None:
    opened = "import hardcap\nlimiter = hardcap.open('inference', limit=2, directory=directory)\n"
    holder, doomed = spawn(noisy=True), spawn()
    holder.run(opened + "permit = limiter.admit()", directory=os.fspath(segment_dir))
    doomed.run(opened + "limiter.reserve()", directory=os.fspath(segment_dir))
    doomed.kill()
    commands, expected = zip(*SHOWN, strict=True)
    assert [shape(text) for text in said(list(commands), segment_dir)] == [shape(text) for text in expected]


def test_the_page_uses_each_command_that_changes_something() -> None:
    assert {"set-limit", "reap", "unlink"} <= {arguments.split()[0] for arguments, _ in SHOWN}


def test_figures_do_not_matter_and_words_do() -> None:
    assert shape("limit is 3, was 2") == shape("limit is 4, was 12")
    assert shape("1 dead owner recovered") != shape("1 owner recovered")
    assert shape("segment '/a/b' is retired") == shape("segment '/c' is retired")
    assert shape("segment '/a/b' is retired") != shape("segment '/a/b' is gone")
