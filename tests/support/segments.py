"""Segments by their files: their words, the lock of their directory, and without a limiter, on the portable words."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardcap import attaching
from hardcap.backend import choose
from hardcap.config import Config
from hardcap.segment import Segment


def attach(config: Config) -> Segment:
    """Attach to it, or build it, without a slot."""
    return attaching.attach(config, choose("atomics", config.name).words)


def unmap(segment: Segment) -> None:
    """Let go of what a segment keeps when other code has closed the descriptor of its locks."""
    segment._memory.close()


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """All words of a segment, to read and to write."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory, memoryview(memory).cast("Q") as words:
        yield words


@contextmanager
def directory_locked(segment_dir: Path) -> Iterator[None]:
    """Nobody attaches to a segment in this directory meanwhile: all wait for its lock."""
    descriptor = os.open(segment_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
