"""How long tests with random input go on, and from which seed on: a moment in the suite, longer when make is asked to.

``TEST_SECONDS`` and ``TEST_SEED`` say so; ``make fuzz SECONDS=600 SEED=1`` sets them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Final

SECONDS: Final = float(os.environ.get("TEST_SECONDS", "0"))
SEED: Final = int(os.environ.get("TEST_SEED", "1"))


def rounds(at_least: int) -> Iterator[Seeded]:
    """Seeded generators: that many, and then more while there is time. An error in the loop names its seed."""
    until = time.monotonic() + SECONDS
    seed = SEED
    while seed < SEED + at_least or time.monotonic() < until:
        yield Seeded(seed)
        seed += 1


class Seeded(random.Random):
    """Random numbers that can be had again: ``with`` notes the seed on whatever is raised in the block."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.origin = seed

    def __enter__(self) -> Seeded:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(f"with TEST_SEED={self.origin}")
