"""A second open file description of a file, for a test that plays another process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hardcap import descriptors


@contextlib.contextmanager
def second_description(descriptor: int) -> Iterator[int]:
    """A description of one's own for the length of the block; its locks are gone at the end."""
    second = descriptors.reopen(descriptor)
    try:
        yield second
    finally:
        descriptors.close(second)
