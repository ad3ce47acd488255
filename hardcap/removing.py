"""Unlink a segment, and tell those who still use it that it is retired."""

from __future__ import annotations

import contextlib
import logging
import mmap
import os

from hardcap import descriptors, layout, locks
from hardcap.directory import Directory, absent, failure
from hardcap.errors import LayoutMismatch, SegmentError
from hardcap.header import parse, read_ours
from hardcap.publishing import remove_debris
from hardcap.segment import Segment
from hardcap.words import MapWords

log = logging.getLogger("hardcap")


def unlink(name: str, directory: str | os.PathLike[str] | None, map_words: MapWords, *, force: bool) -> None:
    """Remove a segment nobody attends; with ``force`` retire it under its users."""
    place = Directory.of_operator(directory)
    path = place.file(name)
    try:
        with place.locked() as descriptor:
            remove_debris(descriptor, name)
            file = place.open_file(descriptor, name, os.O_RDWR)
            if file is None:
                raise absent(path)
            try:
                _let_go(path, file, map_words, force=force)
                os.unlink(name, dir_fd=descriptor)
            finally:
                descriptors.close(file)
    except OSError as error:
        raise failure(path, error, "a file that can be removed") from error


def _let_go(path: str, file: int, map_words: MapWords, *, force: bool) -> None:
    image = read_ours(path, file)
    if locks.take(file, layout.ATTENDANCE_BYTE):
        return
    if not force:
        raise SegmentError(path, "processes attached to it", "nobody", "stop them first, or use --force (force=True)")
    retire(path, image, file, map_words)


def retire(path: str, image: bytes, file: int, map_words: MapWords) -> None:
    """Flag first, then limits of zero: whoever is refused finds the flag. Users of another layout find the flag."""
    with contextlib.ExitStack() as stack:
        segment = _map_to_retire(path, image, file, map_words)  # all that can fail comes before the flag
        if segment is not None:
            stack.callback(segment.close)
        flag = layout.RETIRED_BY_FORCE.to_bytes(layout.WORD, "little")
        os.pwrite(file, flag, layout.H_RETIRED * layout.WORD)
        if segment is not None:
            segment.drain()
    log.warning("segment '%s' is retired under its users, who will open a new one", path)


def _map_to_retire(path: str, image: bytes, file: int, map_words: MapWords) -> Segment | None:
    try:
        shape = parse(path, image, file).shape
    except LayoutMismatch:
        return None
    memory = mmap.mmap(file, layout.segment_bytes(shape.slots))
    return Segment(path, shape, descriptors.reopen(file), memory, map_words(shape.mode, memory))
