"""Where results go, and what a benchmark says when it cannot run here."""

from __future__ import annotations

import importlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path


class Unusable(Exception):
    """The benchmark cannot run here. The text is one line; the exit status is 2."""


def require(modules: Iterable[str]) -> None:
    """``Unusable`` unless all of them can be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            remedy = "install the extra 'bench': pip install -e '.[bench]'"
            raise Unusable(f"cannot import '{module}' ({error}); {remedy}") from error


def json_destination(path: str) -> Path:
    """The real path to write to; ``Unusable`` unless a file can be made there. Asked before any work is done."""
    destination = Path(os.path.realpath(path))
    try:
        if destination.exists() and not stat.S_ISREG(destination.stat().st_mode):
            raise Unusable(f"cannot write {path!r}: it is not a regular file")
        probe = _beside(destination)
        probe.touch(exist_ok=False)
        probe.unlink()
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot write {path!r}: {getattr(error, 'strerror', None) or error}") from error
    return destination


def write_json(destination: Path, results: Mapping[str, object]) -> None:
    """Write all of it or nothing: a reader never sees half a file."""
    draft = _beside(destination)
    try:
        draft.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        draft.replace(destination)
    finally:
        draft.unlink(missing_ok=True)


def _beside(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
