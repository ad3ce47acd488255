"""Segments on the portable words: for tests of what lies below the choice of a backend."""

from __future__ import annotations

from hardcap import segment
from hardcap.backend import choose
from hardcap.config import Config
from hardcap.segment import Segment


def attach(config: Config) -> Segment:
    """Attach to it, or build it, without a slot."""
    return segment.attach(config, choose("atomics", config.name).words)


def unmap(segment: Segment) -> None:
    """Let go of what a segment keeps when other code has closed the descriptor of its locks."""
    segment._memory.close()
