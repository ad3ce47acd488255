"""The README's examples run as they stand, and the commands that it names exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import DEADLINE, ROOT, python_path

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
EXAMPLES = [text for language, text in BLOCKS if language == "python"]
CODE = "\n".join(text for language, text in BLOCKS if language != "python") + "\n".join(
    re.findall(r"`[^`\n]+`", README)
)

# An example names its segment as a service would: it must not meet one of this machine's.
ELSEWHERE = "import os, hardcap.directory\nhardcap.directory.default_directory = lambda: os.environ['HARDCAP_DIR']\n"


def python(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": python_path()}
    if directory:
        environment |= {"HARDCAP_DIR": os.fspath(directory), "HARDCAP_NAME": "inference", "HARDCAP_LIMIT": "10"}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT)


def test_there_are_examples() -> None:
    assert EXAMPLES
    assert "make demo" in CODE
    assert "make test" in CODE


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(segment_dir: Path, example: str) -> None:
    done = python("-c", ELSEWHERE + example, directory=segment_dir)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z][\w-]*)", CODE))))
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"\bpython -m (\w+(?: [a-z]\w*)?)", CODE))) or ["bench"])
def test_a_python_command_exists(command: str) -> None:
    done = python("-m", *command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout
