"""The C source: no warning from any of the headers it is built with, and the tags of the steps that it mirrors."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import hardcap
from tests.conftest import Spawn
from tests.support import builds
from tests.support.interpreters import VERSIONS, ask, interpreter
from tests.support.native import needs_native
from tests.support.references import OPERATIONS

COMPILER = pytest.mark.skipif(not builds.works(), reason=f"no C compiler that works: {builds.compiler()}")
PARSED = (*builds.STRICT, "-fsyntax-only")
TAG = re.compile(r"\[([A-Z]\d+)\]")
EACH_ONCE = """
import os, warnings
from tests.support.references import OPERATIONS, Subject
warnings.simplefilter("ignore")  # of permits that are forgotten
os.mkdir(directory)
subject = Subject(directory, mode)
len([operation(subject) for operation, _ in OPERATIONS.values()])
"""
MIRRORED = ("strict", "approximate", "recovery")  # of the last, settle alone


@COMPILER
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    """The optimiser's too: what it warns of is not in any header."""
    builds.build(builds.SOURCE, tmp_path / "native.abi3.so", builds.STRICT)


@pytest.fixture(params=VERSIONS)
def include(request: pytest.FixtureRequest) -> str:
    """Where the headers of each Python are."""
    found = ask(interpreter(request.param), "import sysconfig; print(sysconfig.get_path('include'))")
    if not os.path.exists(f"{found}/Python.h"):
        pytest.skip(f"python{request.param} has no headers at {found}")
    return found


@COMPILER
def test_no_header_makes_it_warn(tmp_path: Path, include: str) -> None:
    builds.build(builds.SOURCE, tmp_path / "native.abi3.so", PARSED, include)


@COMPILER
@needs_native
def test_built_with_any_headers_it_works_on_this_python(
    spawn: Spawn, tmp_path: Path, segment_dir: Path, include: str
) -> None:
    """A wheel is built by one Python, for all: what a header makes of a call must hold on the others."""
    child = spawn(env=builds.importing(builds.copy_package(tmp_path, include=include)))
    for mode in map(str, hardcap.Mode):
        assert child.run(EACH_ONCE, directory=os.fspath(segment_dir / mode), mode=mode) == len(OPERATIONS)


@COMPILER
def test_a_warning_is_an_error(tmp_path: Path) -> None:
    """Control: a conversion that loses bits does not pass."""
    source = tmp_path / "native.c"
    text = builds.SOURCE.read_text()
    source.write_text(text + "\nint narrow(uint64_t wide);\nint narrow(uint64_t wide) { return wide; }\n")
    with pytest.raises(AssertionError, match="-Werror=conversion"):
        builds.build(source, tmp_path / "native.abi3.so", PARSED)


def tags(text: str) -> set[str]:
    return set(TAG.findall(text))


def test_each_step_carries_the_tag_of_its_counterpart() -> None:
    """What stands at only one side is of a step that the other does not have: returning, and claiming a slot."""
    python = {module: tags((builds.SOURCE.parent / f"{module}.py").read_text()) for module in MIRRORED}
    settle = (builds.SOURCE.parent / "recovery.py").read_text().partition("def _settle_all")[2]
    scan = tags((builds.SOURCE.parent / "segment.py").read_text()) & {"H1"}  # of every scan
    assert tags(builds.SOURCE.read_text()) == python["strict"] | python["approximate"] | tags(settle) | scan


FUNCTIONS = {
    "L1": {"fits"},
    "P1": {"take", "settle_once"},
    "S2": {"reserve_strict", "release_strict"},
    "R1": {"sum_if_quiet"},
    "H1": {"sum_if_quiet", "reserve_approximate"},
    "A1": {"has_room", "reserve_approximate"},
    "W1": {"ring", "reserve_strict"},
}


def test_each_tag_stands_where_the_step_is() -> None:
    """In the function, or in the comment right above it."""
    found: dict[str, set[str]] = {}
    for comment, name, body in re.findall(
        r"^((?:/\*(?:[^*]|\*(?!/))*\*/\n)?)(?:static|HOT) [^(;]*?(\w+)\([^;]*?\)\n(\{.*?^\})",
        builds.SOURCE.read_text(),
        re.M | re.S,
    ):
        for tag in tags(comment + body):
            found.setdefault(tag, set()).add(name)
    assert found == FUNCTIONS
