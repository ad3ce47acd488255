"""The product's own modules, loaded once more from their source, on a kernel of the model's.

What they import of the system (``os``, ``fcntl``, ``time``, ``mmap``) is the stand-in's; what has no state is shared
with the real package. A broken variant is the same source with one passage replaced.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import hardcap
from tests.meta import sources
from tests.support.edits import replace_once

LOADED = (
    "descriptors",
    "locks",
    "directory",
    "header",
    "publishing",
    "segment",
    "removing",
    "attaching",
    "slots",
    "recovery",
    "ownership",
    "admission",
    "strict",
    "approximate",
    "snapshot",
    "portable_limiter",
)


@dataclass(frozen=True)
class Edit:
    """One passage of one module, and what is put in its place."""

    module: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        return replace_once(source, self.old, self.new)


class Product:
    """``product.strict`` and so on are modules of its own."""

    def __init__(self, system: Mapping[str, Any], edits: tuple[Edit, ...] = ()) -> None:
        self._system = system
        self._modules: dict[str, ModuleType] = {}
        for name in LOADED:
            self._modules[name] = self._load(name, [edit for edit in edits if edit.module == name])
        assert {edit.module for edit in edits} <= set(LOADED)

    def __getattr__(self, name: str) -> Any:
        return self._modules[name]

    def _load(self, name: str, edits: list[Edit]) -> ModuleType:
        module = ModuleType(f"hardcap.{name}")
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        exec(_code(name, tuple(edits)), module.__dict__)
        return module

    def _import(self, name: str, *rest: Any) -> Any:
        if name in self._system:
            return self._system[name]
        package, _, module = name.partition(".")
        if package != "hardcap":
            return builtins.__import__(name, *rest)
        if not module:
            return SimpleNamespace(**{**vars(hardcap), **self._modules})
        return self._modules.get(module) or sys.modules[name]


def _code(name: str, edits: tuple[Edit, ...]) -> CodeType:
    (path,) = sources.modules()[name]
    source = path.read_text()
    for edit in edits:
        source = edit.apply(source)
    return compile(source, path, "exec")
