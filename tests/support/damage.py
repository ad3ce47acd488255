"""A segment whose words change behind everybody's back, while limiters go on using it.

Two kinds of damage. *Garbage*: random words of 64 bits, anywhere, and limits of any value. Then a strict cap must hold:
what lies that way is told from a sound word. *Lies*: small numbers, single bits, other words' values, anywhere. They
cannot be told from the truth, so a cap may be wrong; but no call may do anything else than answer or refuse.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import hardcap
from hardcap import layout
from tests.support.segments import mapped

RESOURCES: Final = ("requests", "tokens")
SLOTS: Final = 4
BACKENDS: Final = ("native", "atomics", "native")
NAME: Final = "torn"
LIFE: Final = 60  # steps: after that, what is damaged refuses whatever comes


class Torment:
    """Three limiters, what each holds by a count of its own, and the memory under them."""

    def __init__(self, directory: str, mode: str, rng: random.Random, *, lies: bool) -> None:
        self.rng = rng
        self._lies = lies
        self._directory = directory
        first: dict[str, Any] = {"limits": dict.fromkeys(RESOURCES, 5), "mode": mode, "max_processes": SLOTS}
        self.limiters = [self._open(backend, **first) for backend in BACKENDS]
        self.held = [0] * len(self.limiters)
        self.permits: list[tuple[int, int, hardcap.Permit]] = []
        self.highest_limit = 5
        self._open_memory = contextlib.ExitStack()
        self._words = self._open_memory.enter_context(mapped(Path(directory, NAME)))

    def _open(self, backend: str, **settings: Any) -> hardcap.Limiter:
        return hardcap.open(NAME, directory=self._directory, backend=backend, **settings)

    def live(self) -> None:
        for _ in range(LIFE):
            step = self._hurt if self.rng.random() < 0.15 else self._use
            with contextlib.suppress(hardcap.HardcapError):  # whatever it says, it says it as an error of ours
                step()
            if not self._lies and self.limiters[0].mode is hardcap.Mode.strict:
                units = sum(self.held)
                assert units <= self.highest_limit, f"{units} of {self.highest_limit} in flight"

    # --- damage ---

    def _hurt(self) -> None:
        places = (self._anywhere, self._of_header, self._of_resource, self._of_slot, self._of_slot)
        number = self.rng.choice(places)()
        if number == layout.H_RETIRED and not self._lies:
            return  # it would say that the name is to be had: a second segment, as after unlink --force
        self._words[number] = self._lie(number) if self._lies else self._garbage(number)
        limit = layout.limit_word(0)
        if number == limit and self._words[limit] <= layout.MAX_LIMIT:
            self.highest_limit = max(self.highest_limit, self._words[limit])

    def _anywhere(self) -> int:
        return self.rng.randrange(len(self._words))

    def _of_header(self) -> int:
        fields: list[int] = [*range(layout.H_NAMES), layout.H_HIGH_WATER, layout.H_RECOVERED, layout.H_SWEPT_AT]
        return self.rng.choice(fields)

    def _of_resource(self) -> int:
        block = layout.resource(self.rng.randrange(layout.MAX_RESOURCES))
        return block + (layout.R_GLOBAL if self.rng.random() < 0.5 else layout.R_LIMIT)

    def _of_slot(self) -> int:
        return layout.slot(self.rng.randrange(SLOTS)) + self.rng.randrange(layout.S_BASELINE + 6)

    def _garbage(self, number: int) -> int:
        if number in map(layout.limit_word, range(layout.MAX_RESOURCES)):
            return self.rng.choice((0, 1, 5, 9, layout.MAX_LIMIT + 1, self.rng.getrandbits(64)))
        return self.rng.getrandbits(64) | 1 << 63 | 1 << 31  # no half of it can be taken for a sound one

    def _lie(self, number: int) -> int:
        word: int = self._words[number]
        half = self.rng.choice((1, layout.HIGH_ONE))
        lies: list[Callable[[], int]] = [
            lambda: self.rng.randrange(12) * half,
            lambda: word ^ 1 << self.rng.randrange(64),
            lambda: (word + self.rng.choice((-1, 1)) * half) % 2**64,
            lambda: self._words[self._anywhere()],
            lambda: self.rng.choice((2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)),
        ]
        return self.rng.choice(lies)()

    # --- use ---

    def _use(self) -> None:
        which = self.rng.randrange(len(self.limiters))
        uses = [self._reserve] * 6 + [self._release] * 4 + [self._admit] * 4 + [self._give_back] * 4
        uses += [self._look, self._look, self._set_limit, self._reopen, self._attach]
        self.rng.choice(uses)(which)

    def _amounts(self, which: int) -> tuple[int, dict[str, int]]:
        """Of the first resource, and of the others that this limiter knows: it may have read a header that lies."""
        others = list(self.limiters[which].limits)[1:]
        return self.rng.choice((1, 1, 1, 2, 3)), {name: self.rng.choice((0, 0, 1, 2)) for name in others}

    def _reserve(self, which: int) -> None:
        units, others = self._amounts(which)
        if self.limiters[which].reserve(units, headroom=self.rng.choice((0, 0, 1)), **others):
            self.held[which] += units

    def _release(self, which: int) -> None:
        """Whoever is done is done, whatever comes of the release."""
        units = min(self.held[which] - sum(units for owner, units, _ in self.permits if owner == which), 2)
        if units > 0:
            self.held[which] -= units
            self.limiters[which].release(units)

    def _admit(self, which: int) -> None:
        units, others = self._amounts(which)
        permit = self.limiters[which].admit(units, **others)
        self.held[which] += units
        self.permits.append((which, units, permit))

    def _give_back(self, which: int) -> None:
        if self.permits:
            owner, units, permit = self.permits.pop(self.rng.randrange(len(self.permits)))
            self.held[owner] -= units
            permit.release()

    def _look(self, which: int) -> None:
        limiter = self.limiters[which]
        looks: list[Callable[[], object]] = [
            lambda: limiter.held,
            lambda: limiter.in_flight,
            lambda: limiter.available,
            limiter.snapshot,
            limiter.reap,
            lambda: hardcap.inspect(NAME, self._directory),
        ]
        self.rng.choice(looks)()

    def _set_limit(self, which: int) -> None:
        self.highest_limit = max(self.highest_limit, limit := self.rng.randrange(10))
        self.limiters[which].set_limit(limit)

    def _attach(self, which: int) -> None:
        """One more comes, takes what it gets, and goes."""
        with self._open(BACKENDS[which]) as limiter:
            limiter.reserve()

    def _reopen(self, which: int) -> None:
        """Its end gives back what it holds. The last to go would end the segment, and its damage."""
        limiter = self._open(BACKENDS[which])
        before, self.limiters[which] = self.limiters[which], limiter
        self.held[which] = 0
        before.close()
        self.permits = [one for one in self.permits if one[0] != which]

    def close(self) -> None:
        self._open_memory.close()
        for limiter in self.limiters:
            limiter.close()


def torment(directory: str, mode: str, seed: int, lives: int, *, lies: bool) -> None:
    """Use and damage one segment after another. Raises what no call should."""
    logging.getLogger("hardcap").addHandler(logging.NullHandler())  # a lie may be that it is retired, which is logged
    rng = random.Random(seed)
    for _ in range(lives):
        with contextlib.closing(Torment(directory, mode, rng, lies=lies)) as subject:
            subject.live()
        Path(directory, NAME).unlink(missing_ok=True)
