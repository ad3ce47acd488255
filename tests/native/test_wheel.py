"""The wheel: one for every CPython from 3.11, without anything that users do not need, and an sdist that builds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import expected
from tests.support.processes import ROOT

PYTHONS = ["3.11", "3.12", "3.13"]
USE = """
import sys
sys.path.insert(0, sys.argv[1])
import hardcap
with hardcap.open("wheel", limit=1, directory=sys.argv[2]) as limiter:
    assert limiter.reserve() and not limiter.reserve()
    print(limiter.snapshot().backend)
"""

pytestmark = pytest.mark.skipif(expected.BACKEND == "atomics", reason="without a compiler there is no native wheel")


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def interpreter(version: str) -> str | None:
    """An interpreter of that version which runs: in this environment, on the path, or one of pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(root.glob(f"{version}.*/bin/python")))]
    for path in filter(None, found):
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Built by way of the sdist, as `python -m build` does, from a copy: a build leaves its things about."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "hardcap", source / "hardcap", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    run(sys.executable, "-m", "build", "--outdir", "dist", cwd=source)
    assert len(list((source / "dist").glob("*.tar.gz"))) == 1
    (built,) = (source / "dist").glob("*.whl")
    yield built
    shutil.rmtree(source)


def test_it_is_for_the_stable_abi_and_keeps_to_it(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    assert run(sys.executable, "-m", "abi3audit", "--strict", os.fspath(wheel)) == ""  # it exits with 1 if not


def test_it_holds_the_package_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hardcap", "hardcap_admission"}
    assert not [name for name in names if "test" in name or "bench" in name]
    assert "hardcap/py.typed" in names
    assert [name for name in names if name.startswith("hardcap/native.") and name.endswith(".so")]


@pytest.mark.parametrize("version", PYTHONS)
def test_it_works_on_every_python(wheel: Path, version: str, tmp_path: Path, segment_dir: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert run(python, "-c", USE, os.fspath(tmp_path), os.fspath(segment_dir)) == "native\n"
