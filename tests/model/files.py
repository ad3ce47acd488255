"""One directory on a kernel of the model's: what the product sees of it, and what becomes of it at each system call.

It holds files with at most one link, descriptors, locks on bytes of files, and the directory's own lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from types import SimpleNamespace
from typing import Any, NamedTuple

from hardcap.layout import WORD
from tests.model.actors import Answer, Failed, Request, Run
from tests.model.words import CLOCK, put

DIRECTORY = -1  # in the place of a file's number
PATH = "/segments"


class Open(NamedTuple):
    """One descriptor, and its description."""

    actor: int
    number: int
    file: int


class Lock(NamedTuple):
    """One byte of a file, locked by way of a descriptor."""

    file: int
    byte: int
    kind: int
    actor: int
    number: int


class Files(NamedTuple):
    """What all actors share. ``names``: (name, file) pairs; ``flock``: the descriptor that holds the directory's lock;
    ``ghost``: by actor, whether somebody else attended the segment when it came to have the directory's lock."""

    contents: tuple[bytes, ...]
    names: tuple[tuple[str, int], ...]
    open: frozenset[Open]
    locks: frozenset[Lock]
    flock: Open | None
    ghost: tuple[bool, ...]

    def file(self, name: str) -> int | None:
        return dict(self.names).get(name)

    def find(self, actor: int, number: int) -> Open:
        return next(found for found in self.open if found[:2] == (actor, number))

    def named(self, names: dict[str, int]) -> Files:
        return self._replace(names=tuple(sorted(names.items())))

    def without(self, gone: frozenset[Open]) -> Files:
        """These descriptors closed, and their locks dropped."""
        keys = {(found.actor, found.number) for found in gone}
        locks = frozenset(lock for lock in self.locks if (lock.actor, lock.number) not in keys)
        flock = None if self.flock in gone else self.flock
        return self._replace(open=self.open - gone, locks=locks, flock=flock)


def call(files: Files, actor: int, request: Request, unnamed: bool) -> tuple[Answer, Files] | None:
    """The answer to a system call, and the directory after it; None: it waits."""
    kind, *rest = request
    if kind == "open":
        return _open(files, actor, rest[0], rest[1], unnamed)
    effect: tuple[Answer, Files] | None = _CALLS[kind](files, actor, *rest)
    return effect


def _open(files: Files, actor: int, path: str, flags: int, unnamed: bool) -> tuple[Answer, Files]:
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        return _create(files, actor) if unnamed else (Failed(errno.EOPNOTSUPP), files)
    if path == PATH:
        return _descriptor(files, actor, DIRECTORY)
    if path.startswith("/proc/self/fd/"):
        return _descriptor(files, actor, files.find(actor, int(path.rpartition("/")[2])).file)
    file = files.file(path)
    if flags & os.O_EXCL:
        if file is not None:
            return Failed(errno.EEXIST), files
        return _create(files.named({**dict(files.names), path: len(files.contents)}), actor)
    return (Failed(errno.ENOENT), files) if file is None else _descriptor(files, actor, file)


def _create(files: Files, actor: int) -> tuple[Answer, Files]:
    return _descriptor(files._replace(contents=(*files.contents, b"")), actor, len(files.contents))


def _descriptor(files: Files, actor: int, file: int) -> tuple[Answer, Files]:
    """The lowest number that is free, as the kernel gives it."""
    taken = {found.number for found in files.open if found.actor == actor}
    number = next(number for number in range(3, 99) if number not in taken)
    return number, files._replace(open=files.open | {Open(actor, number, file)})


def _close(files: Files, actor: int, number: int) -> tuple[Answer, Files]:
    return None, files.without(frozenset({files.find(actor, number)}))


def _status(files: Files, actor: int, number: int) -> tuple[Answer, Files]:
    """File, links and size."""
    file = files.find(actor, number).file
    links = sum(named == file for _, named in files.names)
    return (file, links, 0 if file == DIRECTORY else len(files.contents[file])), files


def _read(files: Files, actor: int, number: int, count: int, offset: int) -> tuple[Answer, Files]:
    return files.contents[files.find(actor, number).file][offset : offset + count], files


def _write(files: Files, actor: int, number: int, data: bytes, offset: int) -> tuple[Answer, Files]:
    file = files.find(actor, number).file
    before = files.contents[file]
    after = before[:offset].ljust(offset, b"\0") + data + before[offset + len(data) :]
    return len(data), files._replace(contents=put(files.contents, file, after))


def _map(files: Files, actor: int, number: int) -> tuple[Answer, Files]:
    return files.find(actor, number).file, files


def _link(files: Files, actor: int, source: str, name: str) -> tuple[Answer, Files]:
    by_handle = source.startswith("/proc/self/fd/")
    file = files.find(actor, int(source.rpartition("/")[2])).file if by_handle else files.file(source)
    if file is None or files.file(name) is not None:
        return Failed(errno.ENOENT if file is None else errno.EEXIST), files
    return None, files.named({**dict(files.names), name: file})


def _unlink(files: Files, _actor: int, name: str) -> tuple[Answer, Files]:
    if files.file(name) is None:
        return Failed(errno.ENOENT), files
    return None, files.named({key: file for key, file in files.names if key != name})


def _flock(files: Files, actor: int, number: int) -> tuple[Answer, Files] | None:
    return None if files.flock else (None, files._replace(flock=files.find(actor, number)))


def _lock(files: Files, actor: int, number: int, byte: int, kind: int) -> tuple[Answer, Files]:
    file = files.find(actor, number).file
    others = {lock for lock in files.locks if lock[:2] == (file, byte) and lock[3:] != (actor, number)}
    if any(fcntl.F_WRLCK in (kind, lock.kind) for lock in others):
        return Failed(errno.EAGAIN), files
    mine = {lock for lock in files.locks if lock[:2] == (file, byte)} - others
    return None, files._replace(locks=files.locks - mine | {Lock(file, byte, kind, actor, number)})


def _load(files: Files, _actor: int, file: int, word: int) -> tuple[Answer, Files]:
    return word_of(files.contents[file], word), files


def _store(files: Files, _actor: int, file: int, word: int, value: int) -> tuple[Answer, Files]:
    before, at = files.contents[file], word * WORD
    after = before[:at] + value.to_bytes(WORD, "little") + before[at + WORD :]
    return None, files._replace(contents=put(files.contents, file, after))


def _add(files: Files, actor: int, file: int, word: int, delta: int) -> tuple[Answer, Files]:
    before = word_of(files.contents[file], word)
    return before, _store(files, actor, file, word, (before + delta) % 2**64)[1]


def _swap(files: Files, actor: int, file: int, word: int, expected: int, desired: int) -> tuple[Answer, Files]:
    if _load(files, actor, file, word)[0] != expected:
        return False, files
    return True, _store(files, actor, file, word, desired)[1]


def word_of(content: bytes, word: int) -> int:
    return int.from_bytes(content[word * WORD : (word + 1) * WORD], "little")


_CALLS: dict[str, Any] = {
    "close": _close,
    "status": _status,
    "read": _read,
    "write": _write,
    "map": _map,
    "link": _link,
    "unlink": _unlink,
    "flock": _flock,
    "lock": _lock,
    "load": _load,
    "store": _store,
    "add": _add,
    "swap": _swap,
}


# --- what the product imports of the system ---------------------------------------------------------------------------


class Kernel:
    """In the place of ``os``, ``fcntl`` and ``mmap``. ``run`` is the one under way."""

    run: Run

    def modules(self) -> dict[str, Any]:
        calls = ("open", "close", "fstat", "pread", "pwrite", "link", "unlink", "posix_fallocate")
        own: dict[str, Any] = {name: getattr(self, name) for name in calls}
        own |= {"stat": self._stat_directory, "fchmod": lambda _file, _mode: None, "geteuid": lambda: 0}
        own |= {"register_at_fork": lambda **_hooks: None, "getpid": lambda: 1}
        own["path"] = SimpleNamespace(**{**vars(os.path), "isdir": lambda _: True, "lexists": lambda _: True})
        locks = {name: value for name, value in vars(fcntl).items() if name.isupper()}
        silent = SimpleNamespace(warning=lambda *_: None, info=lambda *_: None)
        return {
            "os": SimpleNamespace(**{**vars(os), **own}),
            "fcntl": SimpleNamespace(**locks, flock=self.flock, fcntl=self.fcntl),
            "mmap": SimpleNamespace(mmap=self.mmap, PROT_READ=1),
            "time": CLOCK,
            "logging": SimpleNamespace(getLogger=lambda _: silent),
            "hardcap.extension": SimpleNamespace(native=None),
        }

    def open(self, path: str, flags: int, _mode: int = 0, *, dir_fd: int | None = None) -> int:
        return self.run.ask("open", path, flags & (os.O_TMPFILE | os.O_EXCL))  # type: ignore[no-any-return]

    def close(self, number: int) -> None:
        self.run.ask("close", int(number))

    def fstat(self, number: int) -> Any:
        return _stat(*self.run.ask("status", int(number)))

    def _stat_directory(self, _path: str, **_options: Any) -> Any:
        return _stat(DIRECTORY, 1, 0)

    def pread(self, number: int, count: int, offset: int) -> bytes:
        return self.run.ask("read", int(number), count, offset)  # type: ignore[no-any-return]

    def pwrite(self, number: int, data: bytes, offset: int) -> None:
        """By halves, as the kernel may do it."""
        half = len(data) // 2
        self.run.ask("write", int(number), data[:half], offset)
        self.run.ask("write", int(number), data[half:], offset + half)

    def posix_fallocate(self, number: int, offset: int, count: int) -> None:
        self.run.ask("write", int(number), bytes(count), offset)

    def link(self, source: str, name: str, **_options: Any) -> None:
        self.run.ask("link", source, name)

    def unlink(self, name: str, **_options: Any) -> None:
        self.run.ask("unlink", name)

    def flock(self, number: int, _operation: int) -> None:
        self.run.ask("flock", int(number))

    def fcntl(self, number: int, _command: int, record: bytes) -> None:
        kind = int.from_bytes(record[:2], "little")
        self.run.ask("lock", int(number), int.from_bytes(record[8:16], "little"), kind)

    def mmap(self, number: int, _size: int, **_options: Any) -> _Mapping:
        return _Mapping(self.run.ask("map", int(number)))


def _stat(file: int, links: int, size: int) -> Any:
    mode = stat.S_IFDIR | 0o700 if file == DIRECTORY else stat.S_IFREG | 0o600
    return SimpleNamespace(st_dev=1, st_ino=file, st_nlink=links, st_size=size, st_uid=0, st_gid=0, st_mode=mode)


class _Mapping:
    def __init__(self, file: int) -> None:
        self.file = file

    def close(self) -> None:
        pass


class FileWords:
    """Words of a mapped file, as far as opening needs them."""

    def __init__(self, run: Run, mapping: _Mapping) -> None:
        self._run = run
        self.file = mapping.file

    def load(self, index: int, /) -> int:
        return self._run.ask("load", self.file, index)  # type: ignore[no-any-return]

    def store(self, index: int, value: int, /) -> None:
        self._run.ask("store", self.file, index, value)

    def fetch_add(self, index: int, delta: int, /) -> int:
        return self._run.ask("add", self.file, index, delta)  # type: ignore[no-any-return]

    def compare_exchange(self, index: int, expected: int, desired: int, /) -> bool:
        return self._run.ask("swap", self.file, index, expected, desired)  # type: ignore[no-any-return]

    def close(self) -> None:
        pass
