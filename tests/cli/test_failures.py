"""What the system refuses to a command: one line that says so, exit status 1, and no traceback."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import hardcap
from hardcap.cli.main import main
from tests.support.processes import DEADLINE


def test_a_full_disk_under_its_output(name: str, segment_dir: Path) -> None:
    with hardcap.open(name, limit=1, directory=segment_dir), open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "hardcap.cli", "metrics", "--dir", os.fspath(segment_dir), name]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr) == (1, "hardcap: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("command", ["set-limit", "reap", "status", "verify", "metrics"])
def test_without_stdout_it_does_its_work(name: str, segment_dir: Path, command: str) -> None:
    arguments = [command, "--dir", os.fspath(segment_dir), name, *(["3"] if command == "set-limit" else [])]
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-W", "error", "-m", "hardcap.cli", *arguments]
        done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert limiter.limit == (3 if command == "set-limit" else 1)


@pytest.mark.parametrize("command", ["set-limit", "reap", "unlink", "status", "verify"])
@pytest.mark.parametrize("spare", range(6))
def test_without_descriptors_left(
    capsys: pytest.CaptureFixture[str], name: str, segment_dir: Path, command: str, spare: int
) -> None:
    """However many there still are: it does its work, or tells."""
    more = {"set-limit": ["1"], "status": ["--interval=0"]}.get(command, [])
    arguments = [command, "--dir", os.fspath(segment_dir), name, *more]
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        main(arguments)  # what it imports takes descriptors too
        capsys.readouterr()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free() + spare, limits[1]))
        try:
            status = main(arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        told = capsys.readouterr().err
        assert limiter.limit == 1
    assert (status, told.count("\n")) in ((0, 0), (1, 1)) or command == "unlink"
    assert not told or "EMFILE" in told or "processes attached" in told


def lowest_free() -> int:
    """No descriptor from there on may be open, or a lower limit leaves room below."""
    return max(int(number) for number in os.listdir("/proc/self/fd")) + 1


@pytest.mark.parametrize("given", ["abc", "-1", "nan", "1e9"])
def test_an_interval_that_is_none(capsys: pytest.CaptureFixture[str], given: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["status", f"--interval={given}"])
    assert f"'{given}' is not within 0 and 3600 seconds" in capsys.readouterr().err


def test_a_directory_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--dir", ""])
    assert "argument --dir: it is '', allowed: a path" in capsys.readouterr().err
