"""Source text broken on purpose."""

from __future__ import annotations


def replace_once(text: str, old: str, new: str) -> str:
    """The text with that passage replaced, which must stand in it once."""
    found = text.count(old)
    assert found == 1, f"{old!r} stands {found} times, allowed: once"
    return text.replace(old, new)
