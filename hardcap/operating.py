"""Segments to operate on: attended while it lasts, without a slot of them. For operators, not for services."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from hardcap import descriptors, layout, locks, recovery
from hardcap.amounts import limits_by_index
from hardcap.attaching import join
from hardcap.config import Config
from hardcap.directory import Directory, absent, failure
from hardcap.errors import SegmentError
from hardcap.header import parse, read_ours
from hardcap.segment import Segment, ended
from hardcap.words import MapWords


class Attended:
    """A segment in use, attended."""

    def __init__(self, segment: Segment, place: Directory) -> None:
        self._segment = segment
        self._place = place

    @property
    def limits(self) -> dict[str, int]:
        """The limits in force, in units, by resource in order."""
        return self._segment.limits()

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """As ``Limiter.set_limit``: for all processes, at once."""
        checked = limits_by_index(self._segment.shape.resources, limits)
        with self._place.locked():
            if found := self._segment.end():
                raise ended(self._segment.path, found)
            self._segment.set_limits(checked)

    def reap(self) -> int:
        """As ``Limiter.reap``: how many dead owners were recovered."""
        return recovery.sweep(self._segment).owners


@contextlib.contextmanager
def operating(name: str, directory: str | os.PathLike[str] | None, map_words: MapWords) -> Iterator[Attended]:
    """The segment of that name. :class:`SegmentError` where there is none, or nobody else is attached to it."""
    config = Config(name, directory=directory)
    place = Directory.of_operator(directory)
    try:
        segment = _open(place, config, map_words)
    except OSError as error:
        raise failure(place.file(name), error, "a segment to operate on") from error
    with contextlib.closing(segment):
        yield Attended(segment, place)


def _open(place: Directory, config: Config, map_words: MapWords) -> Segment:
    path = place.file(config.name)
    with place.locked() as descriptor:
        file = place.open_file(descriptor, config.name, os.O_RDWR)
        if file is None:
            raise absent(path)
        try:
            return _attend(path, config, map_words, file)
        finally:
            descriptors.close(file)


def _attend(path: str, config: Config, map_words: MapWords, file: int) -> Segment:
    header = parse(path, read_ours(path, file), file)
    lock = descriptors.reopen(file)
    try:
        if locks.take(lock, layout.ATTENDANCE_BYTE):
            remedy = "start the service first: whoever opens it now starts it afresh, as configured"
            raise SegmentError(path, "nobody attached", "a segment in use", remedy)
        return join(path, config, map_words, header, file, lock)
    except BaseException:
        descriptors.close(lock)
        raise
