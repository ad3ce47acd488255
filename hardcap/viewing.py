"""Segments to look at: mapped read-only and not attended."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator

from hardcap import descriptors, layout
from hardcap.directory import Directory, absent, failure
from hardcap.header import parse, read_ours
from hardcap.segment import Segment
from hardcap.words import PlainWords


@contextlib.contextmanager
def viewing(name: str, directory: str | os.PathLike[str] | None) -> Iterator[Segment]:
    """The segment of that name. :class:`SegmentError` where there is none that can be trusted."""
    place = Directory.of_operator(directory)
    with place.opened() as descriptor:
        file = place.open_file(descriptor, name, os.O_RDONLY)
    if file is None:
        raise absent(place.file(name))
    with _mapped(place.file(name), file) as segment:
        yield segment


def viewing_again(segment: Segment) -> contextlib.AbstractContextManager[Segment]:
    """The same one as somebody else would see it, whatever has become of its name."""
    try:
        file = descriptors.reopen(segment.lock, os.O_RDONLY)
    except OSError as error:
        raise failure(segment.path, error, "a file that can be read") from error
    return _mapped(segment.path, file)


@contextlib.contextmanager
def _mapped(path: str, file: int) -> Iterator[Segment]:
    try:
        segment = _view(path, file)
    except BaseException:
        descriptors.close(file)
        raise
    with contextlib.closing(segment):
        yield segment


def _view(path: str, file: int) -> Segment:
    shape = parse(path, read_ours(path, file), file).shape
    try:
        memory = mmap.mmap(file, layout.segment_bytes(shape.slots), prot=mmap.PROT_READ)
    except OSError as error:
        raise failure(path, error, "a file that can be mapped") from error
    return Segment(path, shape, file, memory, PlainWords(memory))
