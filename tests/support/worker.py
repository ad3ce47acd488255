"""A process that runs the code it is sent: one JSON line in, one JSON line out, variables kept as globals.

In: ``{"code": text, "variables": {...}}``. Out: ``{"value": ...}``, the value of the last expression, or
``{"error": [type name, message]}``. It imports nothing of pytest and ends, normally, when its input does.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from typing import Any


def evaluate(code: str, namespace: dict[str, Any]) -> Any:
    """Run ``code`` in ``namespace``. The value of its last statement, if that is an expression."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<sent code>", "exec"), namespace)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<sent code>", "eval"), namespace)


def answer(line: str, namespace: dict[str, Any]) -> str:
    request = json.loads(line)
    namespace.update(request["variables"])
    try:
        return json.dumps({"value": evaluate(request["code"], namespace)})
    except Exception as error:
        return json.dumps({"error": [type(error).__name__, str(error)]})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what the code prints goes to stderr, where it is seen
    os.dup2(2, 1)
    with answers:
        for line in iter(sys.stdin.readline, ""):
            answers.write(answer(line, globals()) + "\n")


if __name__ == "__main__":
    main()
