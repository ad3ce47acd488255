"""What may stand at a segment's path without being one: each made by its function, and told apart by ``state``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.namespaces import needs_root

STRANGER = 65534
NOISE = bytes(range(1, 256)) * 200

Make = Callable[[Path], None]


def a_directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def a_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def a_link_to_a_file(path: Path) -> None:
    target = path.parent / "target"
    target.write_bytes(NOISE)
    target.chmod(0o600)
    path.symlink_to(target)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))


def a_file(path: Path, content: bytes = b"") -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def random_bytes(path: Path) -> None:
    a_file(path, NOISE)


def a_few_bytes(path: Path) -> None:
    a_file(path, b"hardcap\0")


def zeros(path: Path) -> None:
    a_file(path, bytes(40960))


def almost_our_magic(path: Path) -> None:
    a_file(path, b"Hardcap\0" + bytes(40952))


def a_file_with_two_links(path: Path) -> None:
    a_file(path, NOISE)
    os.link(path, path.parent / "second")


def a_strangers_file(path: Path) -> None:
    a_file(path, NOISE)
    os.chown(path, STRANGER, STRANGER)


HOSTILE = [
    a_directory,
    a_dangling_link,
    a_link_to_a_file,
    a_link_to_a_device,
    a_fifo,
    a_socket,
    a_file,
    random_bytes,
    a_few_bytes,
    zeros,
    almost_our_magic,
    a_file_with_two_links,
    pytest.param(a_strangers_file, marks=needs_root),
]


def state(directory: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory that a careless visitor could have changed."""
    return {os.fspath(path): _state(path) for path in sorted(directory.rglob("*"))}


def _state(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    marks = (status.st_ino, status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_mtime_ns)
    return (*marks, status.st_ctime_ns, status.st_size, content)
