"""A column of words, each read as any other access is: so that it is counted, announced or answered like one."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Column:
    """Every ``step``-th word from ``first`` on, read anew whenever it is gone through."""

    def __init__(self, load: Callable[[int], int], first: int, count: int, step: int) -> None:
        self._load = load
        self._indices = range(first, first + count * step, step)

    def __iter__(self) -> Iterator[int]:
        return map(self._load, self._indices)
