"""Every case that is due has a test that names it, and no test is skipped without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta import sources

CORE_AND_LIFETIMES = "B16 B18 B26 B24 B27 B36 B37 B48 B49 B38 B40 B47 B46"
DEATH_AND_RECOVERY = "B01 B10 B12 B15 B35 B06 B07 B08 B33 B34"
WAITING = "B20 B21 B30 B52"
MIDDLEWARE = "B03 B22 B28 B29 B44 B45"
METRICS = "B43"
DUE = f"{CORE_AND_LIFETIMES} {DEATH_AND_RECOVERY} {WAITING} {MIDDLEWARE} {METRICS}".split()

SKIPS = ("skip", "skipif", "xfail")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(path: Path) -> Iterator[Function]:
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


@pytest.mark.parametrize("case", DUE)
def test_a_due_case_has_a_test(case: str) -> None:
    """Named in its docstring, or in its own name."""
    word = re.compile(rf"(\b|_){case}(\b|_)", re.IGNORECASE)
    paths = [path for path in sources.test_files(word) if path.name.startswith("test_") and path.parent.name != "meta"]
    assert any(word.search(f"{test.name} {ast.get_docstring(test)}") for path in paths for test in functions_in(path))


def last_name(called: ast.expr) -> str:
    """``xfail`` of ``pytest.mark.xfail``."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def reasonless(call: ast.expr) -> bool:
    """Whether this is a skip, or an expected failure, that does not say why."""
    if isinstance(call, ast.Attribute):
        return call.attr in SKIPS and ast.unparse(call.value) == "pytest.mark"
    if not isinstance(call, ast.Call) or last_name(call.func) not in SKIPS:
        return False
    reasons = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
    positional = call.args[:1] if last_name(call.func) != "skipif" else []
    return not any(not isinstance(why, ast.Constant) or why.value for why in reasons + positional)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pytest.skip()", True),
        ("pytest.skip('')", True),
        ("pytest.skip('no root')", False),
        ("pytest.mark.skip", True),
        ("pytest.mark.skipif(x)", True),
        ("pytest.mark.skipif(x, reason='no root')", False),
        ("pytest.mark.xfail(reason='')", True),
        ("pytest.raises(x)", False),
    ],
)
def test_the_look_for_bare_skips_sees_them(code: str, expected: bool) -> None:
    tree = ast.parse(code, mode="eval")
    assert any(reasonless(node) for node in outermost(tree)) is expected


def outermost(tree: ast.AST) -> Iterator[ast.expr]:
    """Calls and attributes, but not the attribute that a call is made of."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Attribute) and id(node) not in called:
            yield node


def test_no_test_is_skipped_without_a_reason() -> None:
    bare = [
        f"{sources.os_name(path)}:{node.lineno}"
        for path in sources.test_files(re.compile("|".join(SKIPS)))
        for node in outermost(sources.tree(path))
        if reasonless(node)
    ]
    assert bare == []
