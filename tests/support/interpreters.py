"""The Python interpreters of this machine, found by version."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from typing import Final

import pytest

VERSIONS: Final = ("3.11", "3.12", "3.13")


def interpreter(version: str) -> str:
    """One that runs, on the path or of pyenv's; the test is skipped where there is none."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    candidates = [shutil.which(f"python{version}"), *glob.glob(f"{root}/versions/{version}.*/bin/python{version}")]
    for candidate in filter(None, candidates):
        if ask(candidate, "import sys; print('%d.%d' % sys.version_info[:2])") == version:
            return candidate
    pytest.skip(f"no python{version} on the path or under {root}/versions")


def ask(interpreter: str, code: str) -> str:
    """What it prints; nothing if it does not run."""
    done = subprocess.run([interpreter, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
