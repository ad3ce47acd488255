"""Run tests on a copy of the project whose native core is built with AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m tests.support.sanitized DIRECTORY PYTEST_ARGUMENT...`` makes the copy there and runs pytest in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support import builds

LEFT_OUT: Final = {
    "test_references.py": "measures memory, which a sanitizer keeps for itself",
    "test_sanitizers.py": "starts sanitizers of its own",
    "test_source.py": "compiles",
    "test_wheel.py": "looks at wheels",
}


def copy_project(into: Path) -> None:
    """What tests need, in a fresh directory."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    builds.copy_package(into, builds.SANITIZED)
    for name in ("tests", "bench"):
        shutil.copytree(builds.ROOT / name, into / name, ignore=shutil.ignore_patterns("__pycache__", *LEFT_OUT))
    shutil.copy(builds.ROOT / "pyproject.toml", into)


def main() -> int:
    directory = Path(sys.argv[1]).resolve()
    copy_project(directory)
    command = [sys.executable, "-m", "pytest", "-k", "not atomics", *sys.argv[2:]]
    env = os.environ | builds.sanitizing() | {"HARDCAP_EXPECT_BACKEND": "native"}
    return subprocess.run(command, cwd=directory, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
