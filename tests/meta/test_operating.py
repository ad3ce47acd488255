"""The operators' page: its commands, in its order, on a live segment, say what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import Spawn
from tests.meta.test_readme import ELSEWHERE
from tests.support.processes import DEADLINE, ROOT, python_path

BLOCKS = re.findall(
    r"^```console\n(.*?)^```$", (ROOT / "hardcap" / "OPERATING.md").read_text(), re.MULTILINE | re.DOTALL
)
SHOWN = [tuple(shown.split("\n", 1)) for block in BLOCKS for shown in re.split(r"^\$ hardcap ", block, flags=re.M)[1:]]
COMMAND = ELSEWHERE + "import sys\nfrom hardcap.cli.main import main\nsys.exit(main())"


def shape(text: str) -> list[list[str]]:
    """The words, whatever the figures, the widths, what this machine is called, and whether it had a compiler."""
    found = re.sub(r"'[^']*'.*|Linux .*|(?<=backend) .*|\d[\d.,]*( us| ms| s)?|─+", " #", text)
    return [line.split() for line in found.splitlines()]


def hardcap(arguments: str, directory: Path) -> str:
    environment = os.environ | {"PYTHONPATH": python_path(), "HARDCAP_DIR": os.fspath(directory), "COLUMNS": "100"}
    command = [sys.executable, "-W", "error", "-c", COMMAND, *arguments.split()]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_page_shows_what_the_commands_say(spawn: Spawn, segment_dir: Path) -> None:
    opened = "import hardcap\nlimiter = hardcap.open('inference', limit=2, directory=directory)\n"
    holder, doomed = spawn(noisy=True), spawn()
    holder.run(opened + "permit = limiter.admit()", directory=os.fspath(segment_dir))
    doomed.run(opened + "limiter.reserve()", directory=os.fspath(segment_dir))
    doomed.kill()
    for arguments, expected in SHOWN:
        assert shape(hardcap(arguments, segment_dir)) == shape(expected), arguments


def test_the_page_uses_each_command_that_changes_something() -> None:
    assert {"set-limit", "reap", "unlink"} <= {arguments.split()[0] for arguments, _ in SHOWN}


def test_figures_do_not_matter_and_words_do() -> None:
    assert shape("limit is 3, was 2") == shape("limit is 4, was 12")
    assert shape("1 dead owner recovered") != shape("1 owner recovered")
