"""The native core, if it was built and loads here: where everybody asks for it."""

from __future__ import annotations

import importlib
from types import ModuleType

native: ModuleType | None
reason: str

try:
    native, reason = importlib.import_module("hardcap.native"), ""
except ImportError as error:
    native, reason = None, str(error)
