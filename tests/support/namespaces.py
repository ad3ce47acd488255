"""Command prefixes that start a child in Linux namespaces of its own, and whether this machine allows it."""

from __future__ import annotations

import functools
import os
import subprocess

import pytest

PIDS = ("--pid", "--fork", "--mount-proc", "--kill-child")
MOUNTS = ("--mount",)


def unshare(*flags: str) -> list[str]:
    """The prefix. Who is not root gets a user namespace around it."""
    return ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), *flags]


@functools.cache
def _allowed() -> bool:
    try:
        return subprocess.run([*unshare(*MOUNTS, *PIDS), "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


needs_namespaces = pytest.mark.skipif(not _allowed(), reason="this machine allows no new namespaces")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as several users")
