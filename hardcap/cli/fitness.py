"""``hardcap check``: is this machine fit? One line a question, and exit status 1 if one of them is answered with no."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import platform
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

import hardcap
from hardcap import extension, layout
from hardcap.backend import choose
from hardcap.directory import Directory

TMPFS: Final = 0x01021994  # statfs(2)
RAMFS: Final = 0x858458F6
ROOM: Final = layout.segment_bytes(layout.DEFAULT_SLOTS)


class Answer(NamedTuple):
    """What was found, and whether it will do."""

    fit: bool
    found: str


def run(args: argparse.Namespace, console: Console) -> int:
    """Ask everything, whatever the answers."""
    place = Directory(args.dir)
    answers = {question: _ask(check, place) for question, check in QUESTIONS.items()}
    for question, answer in answers.items():
        mark = Text("ok  " if answer.fit else "FAIL", style="green" if answer.fit else "bold red")
        console.print(Text.assemble(mark, f" {question:<14} {answer.found}"), soft_wrap=True)
    return 0 if all(answer.fit for answer in answers.values()) else 1


def _ask(check: Callable[[Directory], Answer], place: Directory) -> Answer:
    try:
        return check(place)
    except hardcap.HardcapError as error:
        return Answer(False, str(error))
    except OSError as error:
        return Answer(False, f"{error.strerror}: '{error.filename or place.path}'")


def _system(_place: Directory) -> Answer:
    found = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Answer(sys.platform == "linux", found if sys.platform == "linux" else f"{found}, expected Linux")


def _python(_place: Directory) -> Answer:
    return Answer(sys.version_info >= (3, 11), f"{platform.python_implementation()} {platform.python_version()}")


def _backend(_place: Directory) -> Answer:
    if extension.native is not None:
        return Answer(True, "native")
    choose(None, "this machine")
    return Answer(True, f"atomics, far slower: {extension.reason}")


def _file_system(place: Directory) -> Answer:
    path = _existing(place.path)
    kind = _kind(path)
    if kind in (TMPFS, RAMFS):
        return Answer(True, f"memory at '{path}'")
    return Answer(False, f"type {kind:#x} at '{path}', expected tmpfs, such as /dev/shm")


def _room(place: Directory) -> Answer:
    status = os.statvfs(_existing(place.path))
    free = status.f_bavail * status.f_frsize
    needed = f"a segment of {layout.DEFAULT_SLOTS} processes takes {ROOM // 1024}"
    return Answer(free >= ROOM, f"{free // 1024:,} KiB free, {needed}")


def _directory(place: Directory) -> Answer:
    if not os.path.lexists(place.path):
        parent = os.path.dirname(place.path)
        may = os.access(parent, os.W_OK | os.X_OK)
        return Answer(may, f"'{place.path}' is made at the first open" if may else f"'{parent}' may not be written to")
    with place.opened():
        mode = os.stat(place.path).st_mode & 0o7777
        may = os.access(place.path, os.R_OK | os.W_OK | os.X_OK)
        return Answer(may, f"'{place.path}', mode {mode:04o}" + ("" if may else ", which this user may not write to"))


def _locks(place: Directory) -> Answer:
    """The whole of it: a segment is built, a slot claimed, units taken and given back, and all removed again."""
    name = f"check-{os.getpid()}-{secrets.token_hex(4)}"
    directory = place.path if place.explicit else None
    with _scratch(place, name), hardcap.open(name, limit=1, directory=directory) as limiter:
        works = limiter.reserve() and not limiter.reserve() and not hardcap.verify(name, directory)
        return Answer(works, "a segment was built, locked, used and removed" if works else "a limit of 1 did not hold")


@contextlib.contextmanager
def _scratch(place: Directory, name: str) -> Iterator[None]:
    made = not os.path.lexists(place.path)
    try:
        yield
    finally:
        with contextlib.suppress(hardcap.SegmentError):
            hardcap.unlink(name, place.path if place.explicit else None)
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(place.path)


def _removal(place: Directory) -> Answer:
    """systemd removes the files of ordinary users from /dev/shm when they log out, unless told otherwise."""
    system_user = os.geteuid() < 1000
    if system_user or place.explicit or not place.path.startswith("/dev/shm/") or not _removes_ipc():
        return Answer(True, "files of this user stay when it logs out")
    return Answer(
        False, "systemd's RemoveIPC is on: run the service as a system user, or set RemoveIPC=no in logind.conf"
    )


def _removes_ipc() -> bool:
    if not os.path.isdir("/run/systemd/system"):
        return False
    with contextlib.suppress(OSError), open("/etc/systemd/logind.conf", encoding="utf-8") as file:
        told = [line.partition("=")[2].strip().lower() for line in file if line.strip().startswith("RemoveIPC=")]
        return (told or ["yes"])[-1] not in ("no", "0", "false", "off")
    return True


QUESTIONS: Final[dict[str, Callable[[Directory], Answer]]] = {
    "system": _system,
    "python": _python,
    "backend": _backend,
    "file system": _file_system,
    "shared memory": _room,
    "directory": _directory,
    "locks": _locks,
    "logout": _removal,
}


def _existing(path: str) -> str:
    """The path, or the nearest directory above it that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _kind(path: str) -> int:
    """The type of the file system, as statfs(2) has it; Python has no call for it."""
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(path), buffer):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return buffer[0] & 0xFFFFFFFF
