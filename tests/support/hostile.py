"""Calls of everything that the native module offers, with whatever is at hand: no order, no sense, no crash."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

import hardcap
from hardcap import extension, native_limiter
from hardcap.native_admission import NativeAdmission

POOL: Final = 60
INTEGERS: Final = (-1, 0, 1, 2, 3, 8, 64, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1)


class Naughty(int):
    """An index that closes words while it is asked for."""

    words: Any = None

    def __index__(self) -> int:
        if self.words is not None:
            self.words.close()
        return 1


class Pest:
    """A pool of objects, and random calls among them; what they return joins the pool."""

    def __init__(self, directory: str, seed: int) -> None:
        native: Any = extension.native
        self._rng = random.Random(seed)
        self._limiters = [hardcap.open("pest", limit=3, directory=directory, backend="native") for _ in range(2)]
        connections = [limiter._connection for limiter in self._limiters]
        self._fixed: list[Any] = [
            *INTEGERS,
            *(
                None,
                True,
                1.5,
                "x",
                b"",
                bytes(64),
                (),
                (1,),
                ((0, 1),),
                ((0, 1), (0, 1)),
                ((1, 2**64),),
                {},
                object,
                type,
            ),
            *(native.Words, native.Core, native.Current, native_limiter.NativeConnection, NativeAdmission),
            *(type(limiter) for limiter in self._limiters),
            *(native.Permit, native.limiter_type, native.forks, hardcap.Limiter, hardcap.Permit),
            *self._limiters,
            *connections,
            *(connection.admission for connection in connections),
        ]
        self._pool: list[Any] = []

    def pester(self, calls: int) -> None:
        for _ in range(calls):
            with contextlib.suppress(Exception):
                self._keep(self._random_call()())
            if self._rng.random() < 0.05:
                self._pool.append(bytearray(8 * self._rng.randrange(9)))

    def _keep(self, found: Any) -> None:
        self._pool.append(found)
        if len(self._pool) > POOL:
            self._pool.pop(self._rng.randrange(POOL))

    def _any(self) -> Any:
        if self._rng.random() < 0.02:
            naughty = Naughty(1)
            naughty.words = next((one for one in self._pool if type(one).__name__ == "Words"), None)
            return naughty
        return self._rng.choice(self._fixed if not self._pool or self._rng.random() < 0.5 else self._pool)

    def _random_call(self) -> Callable[[], Any]:
        target = self._any()
        names = [name for name in dir(target) if _is_native(type(target), name)]
        arguments = [self._any() for _ in range(self._rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 7, 9)))]
        kind = self._rng.random()
        if isinstance(target, type) and kind < 0.3:
            return lambda: object.__new__(target)
        if names and kind < 0.7:
            name = self._rng.choice(names)
            if name == "settle" and arguments:
                arguments[-1] = 3  # tries: as many as asked for are made
            return lambda: getattr(target, name)(*arguments)
        if names and kind < 0.75:
            return lambda: setattr(target, self._rng.choice(names), arguments[0])
        return lambda: target(*arguments)


def _is_native(kind: type, name: str) -> bool:
    """A method or a field that C defines, and how objects are made: no other that Python gives to every object."""
    definer = next((base for base in kind.__mro__ if name in vars(base)), object)
    return definer.__module__ == "hardcap.native" and (not name.startswith("__") or name == "__init__")


def pester(directory: str, seed: int, calls: int) -> None:
    """Nothing is expected but to survive it."""
    Pest(directory, seed).pester(calls)
