"""Segments as files: build, publish, attach, check, replace, unlink.

All of it happens under the directory's lock. A segment is complete before it has a name, and nothing is ever
initialised again in place: a segment that nobody attends any more is replaced by a new file, never reused.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import mmap
import os
import time
from collections.abc import Mapping

from hardcap import bell, descriptors, layout, locks
from hardcap.config import Config, Mode
from hardcap.directory import Directory, failure, lost_name
from hardcap.errors import ConfigError, LayoutMismatch, ModeMismatch, SegmentClosed, SegmentError, SegmentRetired
from hardcap.header import MODE_NUMBERS, Header, Shape, parse, read_ours, retired
from hardcap.locks import Sweeper
from hardcap.publishing import publish, remove_debris
from hardcap.words import MappedWords, MapWords, never_collect, words_of

log = logging.getLogger("hardcap")


class Segment:
    """One mapped segment, attended: ``lock`` is the descriptor whose locks say so, never the mapped one.

    ``sweeper`` has another description, for the locks of our sweeps; there is none where we only look.
    """

    def __init__(
        self,
        path: str,
        shape: Shape,
        lock: int,
        memory: mmap.mmap,
        words: MappedWords,
        sweeper: Sweeper | None = None,
    ) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.shape = shape
        self.lock = lock
        self.words = words
        self._memory = memory
        self.sweeper = sweeper

    def is_locked(self) -> bool:
        """Whether the kernel still knows us as attached: somebody may have closed all descriptors."""
        return descriptors.is_ours(self.lock)

    def can_sweep(self) -> bool:
        """Whether the locks of our sweeps are still on this file."""
        return self.sweeper is not None and self.sweeper.is_ours()

    def end(self) -> str:
        """Why nobody is to go on here, in words: it is retired, or its name leads elsewhere. Nothing while in use."""
        return retired(self.words.load(layout.H_RETIRED)) or lost_name(self.path, self.lock)

    def retire_nameless(self) -> None:
        """Tell all others, if no name leads to this file: nobody can come any more, so those who are there go too.

        No configuration can contradict it, so the directory's lock is not waited for.
        """
        if not os.fstat(self.lock).st_nlink:
            self.words.compare_exchange(layout.H_RETIRED, 0, layout.RETIRED_NAMELESS)
            self.drain()

    def high_water(self) -> int:
        """Number of slots ever used. Every scan reads it after the global word. [H1]"""
        # [H1] scan: the global word is loaded before the high-water mark.
        #   pairs: [H1] in ownership, where the mark is raised before the first announcement
        #   else:  an owner that came in between is neither summed nor betrayed by the version.
        count = self.words.load(layout.H_HIGH_WATER)
        if count > self.shape.slots:
            expected, remedy = f"at most {self.shape.slots} slots", "stop all processes attached, then open again"
            raise SegmentError(self.path, f"a high-water mark of {count}", expected, remedy)
        return count

    def set_limits(self, limits: Mapping[int, int], *, configured: bool = False) -> None:
        """Put limits in force, by resource index, under the directory's lock. Killed in between: the next opener
        finds the configured limit unchanged and does it again."""
        for index, limit in limits.items():
            # [L1] set_limit: the limit is stored before the version moves.
            #   pairs: [L1] in strict, where the global word is loaded before the limit
            #   else:  a swap decided by the old limit succeeds after set_limit has returned.
            self.words.store(layout.limit_word(index), limit)
            if self.shape.mode is Mode.strict:
                self.words.fetch_add(layout.global_word(index), layout.HIGH_ONE)
            if configured:
                self.words.store(layout.H_CONFIGURED + index, limit)
        bell.ring(self.words)

    def drain(self) -> None:
        """Let nobody in any more."""
        self.set_limits(dict.fromkeys(range(len(self.shape.resources)), 0))

    def limits(self) -> dict[str, int]:
        """The limits in force, by resource name."""
        return {name: self.words.load(layout.limit_word(index)) for index, name in enumerate(self.shape.resources)}

    def detach(self) -> None:
        """In a forked child: the parent's memory is out of reach from now on. The lock is closed already."""
        self.words.detach()
        self._unmap()

    def close(self) -> None:
        """Unmap it and drop every lock on it."""
        self.words.close()
        if self.is_locked():
            self._unmap()
        else:
            never_collect(self._memory)
        if self.sweeper is not None:
            self.sweeper.close()
        descriptors.close(self.lock)

    def _unmap(self) -> None:
        """``mmap`` closes a duplicate descriptor of its own by number. Late, that may be somebody else's by then."""
        try:
            self._memory.close()
        except BufferError:  # a thread inside a snapshot still reads it
            never_collect(self._memory)


def ended(path: str, found: str) -> SegmentRetired:
    """The error for a segment that has come to its end."""
    return SegmentRetired(path, found, "a segment in use", "open the name again")


def closed(path: str) -> SegmentClosed:
    """The error for a limiter that was closed."""
    return SegmentClosed(path, "this limiter closed", "an open one", "open the name again")


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
    _retire(path, image, file, map_words)  # once more, for whoever retired it may have died in the middle
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


def absent(path: str) -> SegmentError:
    """The error for a name under which nothing stands."""
    return SegmentError(path, "nothing", "a segment", "check the name and the directory")


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
        raise SegmentError(path, "processes attached to it", "nobody", "stop them first, or use force")
    _retire(path, image, file, map_words)


def _retire(path: str, image: bytes, file: int, map_words: MapWords) -> None:
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
