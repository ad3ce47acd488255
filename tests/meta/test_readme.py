"""The examples of the README and of its pages run as they stand, and so does each command, here or in its own test."""

from __future__ import annotations

import importlib.metadata
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import hardcap
from hardcap.cli.main import main
from tests.cli.test_terminal import COMMANDS
from tests.servers.test_starting import COMMANDS as WAYS_TO_START
from tests.servers.test_starting import listens, statuses
from tests.support.processes import DEADLINE, ROOT, eventually, python_path
from tests.support.servers import Server, any_port
from tests.support.streams import client_of

PAGES = ("README.md", "hardcap/OPERATING.md", "bench/FIGURES.md")
TEXT = "".join((ROOT / page).read_text() for page in PAGES)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [text for language, text in BLOCKS if language == "python"]
SHELL = [
    line.partition("  #")[0].strip() for language, text in BLOCKS if language == "sh" for line in text.splitlines()
]
CODE = "\n".join([*SHELL, *re.findall(r"`[^`\n]+`", TEXT)])
HARDCAP = [line for line in SHELL if line.startswith("hardcap ")]
(COMPLETION,) = (line for line in SHELL if line.startswith("eval "))
(SERVED,) = (line for line in SHELL if line.endswith(" app:app"))
(VLLM,) = (line for line in SHELL if "vllm serve" in line)

# An example names its segment as a service would: it must not meet one of this machine's.
ELSEWHERE = "import os, hardcap.directory\nhardcap.directory.default_directory = lambda: os.environ['HARDCAP_DIR']\n"


def python(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": python_path()}
    if directory:
        environment |= {"HARDCAP_DIR": os.fspath(directory), "HARDCAP_NAME": "inference", "HARDCAP_LIMIT": "10"}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT)


def test_no_command_is_left_out() -> None:
    """What is of no kind that a test runs, here or with the ways to start."""
    known = {*HARDCAP, COMPLETION, SERVED, VLLM, *WAYS_TO_START}
    assert [line for line in SHELL if line not in known and not re.match(r"make |python -m |pip install ", line)] == []
    assert {"make demo", "make test"} <= set(SHELL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(segment_dir: Path, example: str) -> None:
    done = python("-c", ELSEWHERE + example, directory=segment_dir)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z][\w-]*)", CODE))))
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"\bpython -m (\w+(?: [a-z]\w*)?)(?![\w.])", CODE))))
def test_a_python_command_exists(command: str) -> None:
    """With the options that it is shown with."""
    done = python("-m", *command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.findall(rf"python -m {command}(?! [a-z])([^`\n]*)", CODE)
    assert {"usage:", *re.findall(r"--[a-z-]+", " ".join(shown))} <= set(re.split(r"[\s\[\],]+", done.stdout))


def test_what_is_installed_exists() -> None:
    extras = re.findall(r"pip install [^`\n]*\.\[(\w+)\]", CODE)
    assert extras
    assert set(extras) <= set(importlib.metadata.metadata("hardcap-admission").get_all("Provides-Extra") or ())


@pytest.mark.parametrize("line", HARDCAP)
def test_a_command_runs(segment_dir: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """With all that the line shows as optional."""
    _, command, *arguments = shlex.split(re.sub(r"[\[\]]", "", line))
    words = {"NAME": "inference", "N": "3"}
    argv = [command, "--dir", os.fspath(segment_dir), *(words.get(word, word) for word in arguments)]
    with hardcap.open("inference", limit=10, directory=segment_dir):
        assert main(argv) == 0
    assert "inference" in capsys.readouterr().out or command == "check"


def test_every_command_is_shown() -> None:
    assert {line.split()[1] for line in HARDCAP} == COMMANDS.keys()


def test_a_shell_is_told_of_the_completion() -> None:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    shell = ["bash", "-c", f"{COMPLETION} && complete -p hardcap"]
    done = subprocess.run(
        shell, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout.startswith("complete ") and done.stdout.endswith(" hardcap\n")


def test_the_application_is_served(segment_dir: Path, tmp_path: Path) -> None:
    """The example of the middleware, by the command below it."""
    (application,) = (text for text in EXAMPLES if "async def app(scope" in text)
    (tmp_path / "app.py").write_text(application)
    words = shlex.split(SERVED)
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    env = settings | {"HARDCAP_DIR": os.fspath(segment_dir), "PYTHONPATH": python_path(tmp_path)}
    server = Server(any_port([word for word in words if "=" not in word]), tmp_path, 0, env)
    try:
        with client_of(server) as client, hardcap.open(hardcap.Config.from_env(env)) as limiter:
            eventually(lambda: listens(client), "it takes connections")
            assert statuses(client) == {200}
            assert limiter.limit == int(settings["HARDCAP_LIMIT"])
            limiter.set_limit(0)
            assert statuses(client) == {503}
    finally:
        server.close()


def test_the_middleware_that_vllm_is_told_of_exists() -> None:
    """What it does there: see ``servers/test_vllm_middleware.py``."""
    words = shlex.split(VLLM)
    assert callable(pkgutil.resolve_name(words[words.index("--middleware") + 1]))
