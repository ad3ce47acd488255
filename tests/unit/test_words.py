"""64-bit words over shared memory: what each access does, and that closing lets go of the memory."""

from __future__ import annotations

import gc
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hardcap import words as module
from hardcap.errors import BackendUnavailable
from hardcap.layout import U64
from hardcap.words import AtomicWords, PlainWords, require_atomics, words_of
from tests.conftest import Spawn
from tests.support.processes import eventually

COUNT = 64
Kind = type[AtomicWords] | type[PlainWords]
kinds = pytest.mark.parametrize("kind", [AtomicWords, PlainWords])


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, COUNT * 8) as memory:
        yield memory


@pytest.fixture
def words(memory: mmap.mmap, kind: Kind) -> Iterator[AtomicWords | PlainWords]:
    words = kind(memory)
    yield words
    words.close()


Words = AtomicWords | PlainWords


@kinds
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1, 2**32, 2**63, U64])
def test_load_gives_what_was_stored(words: Words, memory: mmap.mmap, value: int) -> None:
    words.store(3, value)
    assert words.load(3) == value
    assert memory[24:32] == value.to_bytes(8, "little")
    assert memory[:24] + memory[32:] == bytes(COUNT * 8 - 8)


def test_loads_where_the_processor_does_not_order_plain_ones(
    memory: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOADS_ARE_ORDERED", False)
    words = AtomicWords(memory)
    memory[24:32] = U64.to_bytes(8, "little")
    assert words.load(3) == U64
    assert len(words._contexts) == 1, "by an atomic view"
    words.close()


@kinds
@pytest.mark.parametrize(
    ("before", "delta", "after"),
    [
        (5, 2, 7),
        (5, -2, 3),
        (0, -1, U64),
        (U64, 1, 0),
        (U64, U64, U64 - 1),
        (1, 2**32 - 1, 2**32),
        (2**32, -(2**32), 0),
    ],
)
def test_fetch_add_gives_what_was_there_and_wraps(words: Words, before: int, delta: int, after: int) -> None:
    words.store(9, before)
    assert words.fetch_add(9, delta) == before
    assert words.load(9) == after


@kinds
def test_compare_exchange(words: Words) -> None:
    words.store(1, U64)
    assert words.compare_exchange(1, U64, 7) is True
    assert words.compare_exchange(1, U64, 8) is False
    assert words.load(1) == 7


@kinds
def test_a_column_is_loaded_afresh_each_time(words: Words) -> None:
    column = words.column(2, 3, 10)
    for round_number in (1, 2):
        for k in range(3):
            words.store(2 + 10 * k, round_number * (k + 1))
        assert list(column) == [round_number, round_number * 2, round_number * 3]
    assert list(words.column(0, 0, 1)) == []
    del column


@kinds
def test_the_last_word_and_none_behind_it(words: Words) -> None:
    words.store(COUNT - 1, 1)
    assert words.fetch_add(COUNT - 1, 1) == 1
    with pytest.raises((IndexError, ValueError, OSError)):
        words.load(COUNT)


@kinds
def test_close_lets_go_of_the_memory(kind: Kind) -> None:
    memory = mmap.mmap(-1, COUNT * 8)
    words = kind(memory)
    for index in range(COUNT):
        words.fetch_add(index, 1)
    words.close()
    words.close()
    memory.close()  # a view left open would be a BufferError here, and a complaint when it is collected
    del words
    gc.collect()


@kinds
def test_an_access_after_close_is_an_error(kind: Kind, memory: mmap.mmap) -> None:
    words = kind(memory)
    words.store(0, 1)
    words.close()
    with pytest.raises(ValueError, match="released"):
        words.load(0)
    with pytest.raises(ValueError, match="released"):
        words.compare_exchange(0, 1, 2)


@kinds
def test_detach_goes_on_with_a_private_copy(kind: Kind) -> None:
    memory = mmap.mmap(-1, COUNT * 8)
    words = kind(memory)
    words.store(5, 40)
    assert words.fetch_add(5, 1) == 40
    words.detach()
    assert words.fetch_add(5, 1) == 41
    words.store(6, 7)
    assert [words.load(5), words.load(6)] == [42, 7]
    assert memory[40:56] == (41).to_bytes(8, "little") + bytes(8)
    memory.close()
    words.close()


@kinds
def test_threads_open_the_same_views_at_once(words: Words) -> None:
    threads = 6
    barrier = Barrier(threads)

    def add(_thread: int) -> None:
        for index in range(COUNT):
            barrier.wait()
            words.fetch_add(index, 1)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(add, range(threads)))
    assert [words.load(index) for index in range(COUNT)] == [threads] * COUNT
    assert len(words._contexts) == len(words._views) == COUNT


WRITER = """
import mmap
from hardcap import words as seam
file = open(path, "r+b")
memory = mmap.mmap(file.fileno(), 0)
words = getattr(seam, kind)(memory)
def alternate():
    words.store(1, 1)
    while not words.load(2):
        words.store(0, 2**64 - 1)
        words.store(0, 0)
def add(times):
    for _ in range(times):
        words.fetch_add(3, 1 - 2**32)
"""


@pytest.fixture
def shared(segment_dir: Path) -> Iterator[tuple[str, mmap.mmap]]:
    """Memory of this process and another one."""
    with tempfile.NamedTemporaryFile(dir=segment_dir) as file:
        os.truncate(file.fileno(), COUNT * 8)
        with mmap.mmap(file.fileno(), 0) as memory:
            yield file.name, memory


@kinds
def test_no_load_is_torn(spawn: Spawn, shared: tuple[str, mmap.mmap], kind: Kind) -> None:
    """While another process stores, on another processor if there is one."""
    path, memory = shared
    words = kind(memory)
    writer = spawn()
    writer.run(WRITER, path=path, kind=kind.__name__)
    writer.post("alternate()")
    eventually(lambda: words.load(1) == 1, "the other process stores")
    seen: set[int] = set()

    def look() -> bool:
        seen.update(words.load(0) for _ in range(50_000))
        return len(seen) > 1

    eventually(look, "more than one value is seen")
    words.store(2, 1)
    writer.answer()
    words.close()
    assert seen == {0, U64}


def test_processes_add_at_once_and_nothing_is_lost(spawn: Spawn, shared: tuple[str, mmap.mmap]) -> None:
    path, memory = shared
    words = AtomicWords(memory)
    words.store(3, 8_000 * 2**32)
    writer = spawn()
    writer.run(WRITER, path=path, kind="AtomicWords")
    writer.post("add(4_000)")
    for _ in range(4_000):
        words.fetch_add(3, 1 - 2**32)
    writer.answer()
    assert words.load(3) == 8_000
    words.close()


def test_words_of_an_image() -> None:
    image = b"".join(value.to_bytes(8, "little") for value in (1, 2**40, U64, 4))
    assert words_of(image, 1, 2) == (2**40, U64)


def test_without_atomics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "atomics", None)
    with pytest.raises(BackendUnavailable, match="segment '/x/web': found the atomics package unusable") as caught:
        require_atomics("/x/web")
    assert "pip install" in caught.value.remedy
