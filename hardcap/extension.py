"""The native core, if it was built and loads here: the one place that imports it."""

from __future__ import annotations

from types import ModuleType

native: ModuleType | None
reason: str

try:
    from hardcap import native

    reason = ""
except ImportError as error:
    native, reason = None, str(error)
