"""``verify``, ``metrics``, ``check``, and what any command does with its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hardcap import layout
from hardcap.cli.main import main
from tests.cli.conftest import Hardcap
from tests.cli.test_terminal import COMMANDS
from tests.conftest import Spawn
from tests.support.damage import mapped
from tests.support.processes import DEADLINE


def test_verify(run: Hardcap, attached: Spawn, name: str, segment_dir: Path) -> None:
    attached(limit=3).run("limiter.reserve(2)")
    done = run("verify", name)
    assert (done.returncode, done.stdout) == (0, f"{name}: every invariant holds\n")
    with mapped(segment_dir / name) as words:
        words[layout.global_word(0)] -= 1
        done = run("verify", name)
        words[layout.global_word(0)] += 1
    assert done.returncode == 1
    assert done.stdout.startswith("I1: ") and done.stdout.count("\n") == 1
    assert run("verify", name).returncode == 0


def test_metrics(run: Hardcap, attached: Spawn, name: str) -> None:
    attached(limit=3).run("limiter.reserve(2), limiter.reserve(2)")
    lines = run("metrics", name).stdout.splitlines()
    assert f'hardcap_in_flight{{name="{name}",resource="requests"}} 2.0' in lines
    assert f'hardcap_rejected_total{{name="{name}",resource="requests"}} 1.0' in lines


def test_this_machine_is_fit(run: Hardcap, segment_dir: Path) -> None:
    done = run("check")
    assert done.returncode == 0, done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 8
    assert list(segment_dir.iterdir()) == []


def test_a_disk_is_not_fit(tmp_path: Path, run: Hardcap) -> None:
    done = run("check", "--dir", "/proc/self")
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 1
    assert "file" in failed and "locks" in failed
    assert "Traceback" not in done.stderr


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(argument: str) -> str:
        with pytest.raises(SystemExit, match=r"^0$"):
            main([argument])
        return capsys.readouterr().out

    assert shown("--version") == f"hardcap {metadata.version('hardcap-admission')}\n"
    assert COMMANDS.keys() <= set(shown("--help").split())


def test_the_installed_command_is_the_module() -> None:
    (entry,) = metadata.entry_points(group="console_scripts", name="hardcap")
    assert entry.value == "hardcap.cli.main:main"


def test_a_reader_that_has_seen_enough(attached: Spawn, name: str, segment_dir: Path) -> None:
    attached(limit=1)
    command = [sys.executable, "-W", "error", "-X", "dev", "-m", "hardcap.cli"]
    command += ["verify", name, "--dir", os.fspath(segment_dir)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process:
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE) == 1


def test_shell_completion(attached: Spawn, name: str, segment_dir: Path) -> None:
    """As bash asks: commands, and the names of the segments there are."""
    attached(limit=1)
    assert "set-limit" in complete("hardcap set")
    assert name in complete(f"hardcap verify --dir {segment_dir} t")


def complete(line: str) -> list[str]:
    env = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\v",
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    command = [sys.executable, "-m", "hardcap.cli"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE)
    return [word.strip() for word in done.stdout.split("\v")]
