"""What `make wheel` built: one wheel for every Python from 3.11 on, with the native core and nothing of the tests."""

from __future__ import annotations

import email.parser
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.interpreters import VERSIONS, interpreter

DIST = os.environ.get("TEST_DIST")
pytestmark = pytest.mark.skipif(DIST is None, reason="looks at what make wheel has built")

QUIETLY = ("--disable-pip-version-check", "-q", "--no-deps")
ALONE = ("-I", "-S", "-W", "error")  # no other package is seen, an editable install of this one least of all
USE = """
import sys
package, name, directory = sys.argv[1:]
sys.path.insert(0, package)
import hardcap
for mode in hardcap.Mode:
    limits = {"requests": 2, "tokens": 9}
    with hardcap.open(f"{name}-{mode}", limits=limits, mode=mode, directory=directory) as limiter:
        with limiter.admit(tokens=3) as permit:
            assert not limiter.reserve(1, tokens=7)
            assert not limiter.reserve(headroom=2)
            assert permit.amounts == {"tokens": 3}
        assert limiter.reserve() and limiter.reserve() and not limiter.reserve()
        limiter.release(2)
        print(limiter.snapshot().backend, type(limiter).__module__)
"""


def built(suffix: str) -> Path:
    (found,) = Path(DIST or "").glob(f"*{suffix}")
    return found


def run(*command: str | os.PathLike[str], **env: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_name_says_for_which_pythons() -> None:
    python, abi, platform = built(".whl").stem.split("-")[2:]
    assert (python, abi) == ("cp311", "abi3")
    assert platform.startswith("linux")
    with zipfile.ZipFile(built(".whl")) as wheel:
        (about,) = (name for name in wheel.namelist() if name.endswith("/WHEEL"))
        fields = email.parser.Parser().parsestr(wheel.read(about).decode())
    assert fields["Tag"] == f"{python}-{abi}-{platform}"
    assert fields["Root-Is-Purelib"] == "false"


def test_it_holds_the_package_alone() -> None:
    with zipfile.ZipFile(built(".whl")) as wheel:
        names = set(wheel.namelist())
    root = Path(__file__).parents[2]
    modules = {os.fspath(path.relative_to(root)) for path in root.glob("hardcap/**/*.py")}
    others = {name for name in names - modules if not name.startswith("hardcap_admission-")}
    assert modules <= names
    assert others == {"hardcap/native.abi3.so", "hardcap/native.pyi", "hardcap/py.typed", "hardcap/OPERATING.md"}


def test_it_keeps_to_the_stable_abi() -> None:
    report = json.loads(run(sys.executable, "-m", "abi3audit", "--strict", "--report", built(".whl")))
    ((library,),) = (spec["wheel"] for spec in report["specs"].values())
    assert library["name"] == "native.abi3.so"
    assert library["result"]["is_abi3"] and library["result"]["is_abi3_baseline_compatible"]
    assert (library["result"]["baseline"], library["result"]["non_abi3_symbols"]) == ("3.11", [])


@pytest.mark.parametrize("version", VERSIONS)
def test_it_works_on(version: str, tmp_path: Path, name: str, segment_dir: Path) -> None:
    python = interpreter(version)
    run(python, "-m", "pip", "install", *QUIETLY, "--no-index", "--target", tmp_path, built(".whl"))
    shown = run(python, *ALONE, "-c", USE, tmp_path, name, segment_dir)
    assert shown == "native hardcap.native\n" * 2


def test_the_source_distribution_has_what_it_is_built_from() -> None:
    """The wheel was built from it: that is how ``python -m build`` does it."""
    with tarfile.open(built(".tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = ("native.c", "native.pyi", "py.typed")
    assert {*(f"hardcap/{file}" for file in needed), "pyproject.toml", "LICENSE", "README.md"} <= names
    assert not {name for name in names if name.startswith(("tests", "bench", "hardcap/native.abi3"))}


def test_without_a_compiler_it_is_built_without_a_native_core(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    run(sys.executable, "-m", "pip", "wheel", *QUIETLY, "-w", wheels, built(".tar.gz"), CC="/nonexistent/cc")
    (made,) = wheels.glob("*.whl")
    with zipfile.ZipFile(made) as wheel:
        assert not [name for name in wheel.namelist() if name.endswith(".so")]
        wheel.extractall(tmp_path / "package")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from hardcap.extension import *; print(native, reason)"
    shown = run(sys.executable, *ALONE, "-c", code, tmp_path / "package")
    assert shown == "None No module named 'hardcap.native'\n"
