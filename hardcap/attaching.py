"""Attach to the segment of a name: join it while it is in use, else build it.

All of it happens under the directory's lock. A segment is complete before it has a name, and nothing is ever
initialised again in place: a segment that nobody attends any more is replaced by a new file, never reused.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import time

from hardcap import descriptors, layout, locks
from hardcap.config import Config, Mode
from hardcap.directory import Directory, failure
from hardcap.errors import ConfigError, LayoutMismatch, ModeMismatch, SegmentError
from hardcap.header import MODE_NUMBERS, Header, Shape, parse, read_ours, retired
from hardcap.locks import Sweeper
from hardcap.publishing import publish, remove_debris
from hardcap.removing import retire
from hardcap.segment import Segment
from hardcap.words import MapWords, words_of

log = logging.getLogger("hardcap")


def attach(config: Config, map_words: MapWords) -> Segment:
    """Attach to the segment that ``config`` names, or build it. Raises ConfigError or SegmentError."""
    directory = Directory.of(config)
    path = directory.file(config.name)
    if config.limits is None and not os.path.isdir(directory.path):
        raise _nothing_there(path)
    size = layout.segment_bytes(config.max_processes or layout.DEFAULT_SLOTS)
    try:
        with directory.locked(create=True) as descriptor:
            return _attach_locked(directory, descriptor, config, map_words)
    except OSError as error:
        raise failure(path, error, f"room for {size} bytes and a file of ours") from error


def _attach_locked(directory: Directory, descriptor: int, config: Config, map_words: MapWords) -> Segment:
    remove_debris(descriptor, config.name)
    file = directory.open_file(descriptor, config.name, os.O_RDWR)
    if file is None:
        return _build(directory, descriptor, config, map_words)
    try:
        return _attend(directory, descriptor, config, map_words, file)
    finally:
        descriptors.close(file)


def _attend(directory: Directory, descriptor: int, config: Config, map_words: MapWords, file: int) -> Segment:
    path = directory.file(config.name)
    image = read_ours(path, file)
    lock = descriptors.reopen(file)
    try:
        if not _is_free(path, image, file, lock, map_words):
            return join(path, config, map_words, parse(path, image, file), file, lock)
    except BaseException:
        descriptors.close(lock)
        raise
    try:
        before = None if config.limits else _parse_unattended(path, image, file)
        return _build(directory, descriptor, config, map_words, before, replace=True)
    finally:
        descriptors.close(lock)


def _parse_unattended(path: str, image: bytes, file: int) -> Header:
    try:
        return parse(path, image, file)
    except LayoutMismatch as error:
        remedy = "nobody is attached: give limit= or limits= to start it afresh, or unlink it"
        raise LayoutMismatch(path, error.found, error.expected, remedy) from None


def _is_free(path: str, image: bytes, file: int, lock: int, map_words: MapWords) -> bool:
    """Nobody is attached, or those who are have been told to leave: the name is to be had."""
    if locks.take(lock, layout.ATTENDANCE_BYTE):
        return True
    if not retired(words_of(image, layout.H_RETIRED, 1)[0]):
        return False
    retire(path, image, file, map_words)  # once more, for whoever retired it may have died in the middle
    return True


def join(path: str, config: Config, map_words: MapWords, header: Header, file: int, lock: int) -> Segment:
    """Attend a segment in use, by ``lock``, and map it."""
    _compare(path, config, header.shape)
    if not locks.take(lock, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK):
        remedy = "look for a program that locks files in this directory (lslocks)"
        raise SegmentError(path, "its attendance byte locked by other code", "hardcap alone to lock it", remedy)
    memory = mmap.mmap(file, layout.segment_bytes(header.shape.slots))
    words = map_words(header.shape.mode, memory)
    segment = Segment(path, header.shape, lock, memory, words, Sweeper(descriptors.reopen(lock)))
    try:
        _reconfigure(segment, config, header.configured)
    except BaseException:
        segment.close()
        raise
    return segment


def _compare(path: str, config: Config, shape: Shape) -> None:
    """Mode and resources must match while anybody is attached; the number of slots is the first opener's."""
    mode = config.mode or (Mode.strict if config.limits else shape.mode)
    if mode is not shape.mode:
        raise ModeMismatch(path, f"mode {shape.mode}", f"mode {mode}", "stop all processes attached, then open again")
    if config.limits is not None and tuple(config.limits) != shape.resources:
        allowed = f"the resources of the live segment '{path}', in order: {', '.join(shape.resources)}"
        raise ConfigError("limits", dict(config.limits), allowed)
    if config.max_processes not in (None, shape.slots):
        log.warning(
            "segment '%s' has %d slots, the first opener's; max_processes=%s has no effect until nobody is attached",
            path,
            shape.slots,
            config.max_processes,
        )


def _reconfigure(segment: Segment, config: Config, configured: tuple[int, ...]) -> None:
    """A configured limit that differs from the one configured last becomes the limit."""
    wanted = config.limits or {}
    changed = {i: n for i, (name, n) in enumerate(wanted.items()) if n != configured[i]}
    for index, limit in changed.items():
        name = segment.shape.resources[index]
        log.warning("segment '%s': the configured limit of %s changes from %d to %d", segment.path, name,
                    configured[index], limit)  # fmt: skip
    segment.set_limits(changed, configured=True)


def _build(
    directory: Directory,
    descriptor: int,
    config: Config,
    map_words: MapWords,
    before: Header | None = None,
    *,
    replace: bool = False,
) -> Segment:
    """A complete new segment, attended, then published; ``before`` gives what the configuration leaves open."""
    path = directory.file(config.name)
    if config.limits is None and before is None:
        raise _nothing_there(path)
    limits = tuple(config.limits.values()) if config.limits else before.configured  # type: ignore[union-attr]
    names = tuple(config.limits) if config.limits else before.shape.resources  # type: ignore[union-attr]
    mode = Mode(config.mode or (before.shape.mode if before else Mode.strict))
    slots = config.max_processes or (before.shape.slots if before else layout.DEFAULT_SLOTS)
    shape = Shape(mode, names, slots)
    image = layout.initial_image(MODE_NUMBERS[mode], names, limits, slots, time.time_ns())
    lock, sweeper, memory = publish(descriptor, config.name, image, directory.permissions, replace=replace)
    try:
        return Segment(path, shape, lock, memory, map_words(mode, memory), Sweeper(sweeper))
    except BaseException:
        descriptors.close(lock)
        descriptors.close(sweeper)
        raise


def _nothing_there(path: str) -> ConfigError:
    remedy = f"limit= or limits= (HARDCAP_LIMIT for Config.from_env), since there is no segment '{path}' to attach to"
    return ConfigError("limit", None, remedy)
