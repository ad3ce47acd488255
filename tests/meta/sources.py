"""The project's own sources, for the tests that read them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.processes import ROOT

PACKAGE = ROOT / "hardcap"


def modules(package: Path = PACKAGE) -> dict[str, list[Path]]:
    """The files of each of a package's modules; a subpackage is one of several files."""
    found: dict[str, list[Path]] = {}
    for path in sorted(package.rglob("*.py")):
        found.setdefault(path.relative_to(package).parts[0].removesuffix(".py"), []).append(path)
    return found


def test_files(word: re.Pattern[str]) -> list[Path]:
    """Those in which the word is found, in whatever place: the others need not be parsed."""
    return [path for path in sorted((ROOT / "tests").rglob("*.py")) if word.search(text(path))]


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), os_name(path))


def os_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that is imported anywhere in a file, in full: ``from hardcap import x`` is ``hardcap.x``."""
    found: list[str] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{os_name(path)}:{node.lineno} imports relatively"
            found += (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(found)
