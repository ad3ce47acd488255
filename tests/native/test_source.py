"""The C source: no warning from any of the headers it is built with, and the tags of the steps that it mirrors."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import builds
from tests.support.interpreters import VERSIONS, ask, interpreter

COMPILER = pytest.mark.skipif(not builds.works(), reason=f"no C compiler that works: {builds.compiler()}")
TAG = re.compile(r"\[([A-Z]\d+)\]")
MIRRORED = ("strict", "approximate", "recovery")  # of the last, settle alone


@COMPILER
@pytest.mark.parametrize("version", VERSIONS)
def test_it_compiles_without_a_warning(tmp_path: Path, version: str) -> None:
    include = ask(interpreter(version), "import sysconfig; print(sysconfig.get_path('include'))")
    if not os.path.exists(f"{include}/Python.h"):
        pytest.skip(f"python{version} has no headers at {include}")
    builds.build(builds.SOURCE, tmp_path / "native.abi3.so", builds.STRICT, include)


@COMPILER
def test_a_warning_is_an_error(tmp_path: Path) -> None:
    """Control: a conversion that loses bits does not pass."""
    source = tmp_path / "native.c"
    text = builds.SOURCE.read_text()
    source.write_text(text + "\nint narrow(uint64_t wide);\nint narrow(uint64_t wide) { return wide; }\n")
    with pytest.raises(AssertionError, match="-Werror=conversion"):
        builds.build(source, tmp_path / "native.abi3.so", builds.STRICT)


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
