"""What the figures were measured on: they mean nothing without it."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

_ROOT = Path(__file__).resolve().parent.parent


class Machine(TypedDict):
    """``cores`` are those this process may use; ``commit`` is None outside a git checkout."""

    cpu: str
    cores: int
    kernel: str
    python: str
    backend: str
    commit: str | None
    date: str


def describe(backend: str) -> Machine:
    """This machine now, with the words backend that was measured."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "backend": backend,
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def line(machine: Machine) -> str:
    """The same as one line of text."""
    commit = f"commit {machine['commit']}" if machine["commit"] else "no commit"
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
    return (
        f"{machine['cpu']}, {cores}, Linux {machine['kernel']}, {machine['python']}, "
        f"backend {machine['backend']}, {commit}, {machine['date']}"
    )


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for text in lines:
            key, _, value = text.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def _commit() -> str | None:
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
