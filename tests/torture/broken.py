"""One line of recovery broken in memory, for the storm to find out. Run before anything is forked."""

from __future__ import annotations

import inspect
from typing import Final, NamedTuple

from hardcap import recovery
from tests.support.edits import replace_once


class Fault(NamedTuple):
    """A line of `hardcap.recovery`, and what stands in its place."""

    line: str
    instead: str


FAULTS: Final = {
    "held is not given back": Fault(
        "fetch_add(layout.global_word(index), HIGH_ONE - held)", "fetch_add(layout.global_word(index), HIGH_ONE)"
    ),
    "held is given back twice": Fault(
        "fetch_add(layout.global_word(index), HIGH_ONE - held)",
        "fetch_add(layout.global_word(index), HIGH_ONE - 2 * held)",
    ),
    "pending is forgotten": Fault(
        "if self._swap_natively(index) if hasattr(self._words, 'settle') else self._swap(index):".replace("'", '"'),
        "if True:",
    ),
    "the living are taken for dead": Fault("if locks.take(self._lock, layout.SLOT_LOCKS + slot):", "if True:"),
}


def apply(fault: str) -> None:
    """Run the module's source with that line replaced, in the module's own namespace."""
    source = inspect.getsource(recovery)
    exec(compile(replace_once(source, *FAULTS[fault]), recovery.__file__, "exec"), vars(recovery))
