"""Copies of the package that are broken in one way: a crash run that does not see it sees nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.suite import Group
from tests.support import builds


@dataclass(frozen=True)
class Fault:
    """Text of one file of the package replaced; the group of deaths that must find it."""

    file: str
    texts: tuple[tuple[str, str], ...]
    group: Group

    def copy(self, into: Path) -> dict[str, str]:
        """Environment in which a child imports the broken package."""
        return builds.importing(builds.copy_package(into, ["-O0"], *self.texts, file=self.file))


_ONE_DEATH: Final = Group("one death", "native", "strict", 1)
_TWO_DEATHS: Final = Group("two deaths", "native", "strict", 1)

FAULTS: Final = {
    "announced after the swap": Fault(
        "native.c",
        (
            ("    put(base, r->own, own + units * HIGH_ONE);\n", ""),
            (
                "            put(base, r->own, own);\n            return false;\n        }\n    }\n",
                "            return false;\n        }\n    }\n    put(base, r->own, own + units * HIGH_ONE);\n",
            ),
        ),
        _ONE_DEATH,
    ),
    "not pending any more, and the count not fallen": Fault(
        "native.c",
        (
            ("    atomic_fetch_add(base + r->global, HIGH_ONE - units);\n", ""),
            (
                "    put(base, r->own, peek(base, r->own) - units * HIGH_ONE);\n}",
                "    put(base, r->own, peek(base, r->own) - units * HIGH_ONE);\n"
                "    atomic_fetch_add(base + r->global, HIGH_ONE - units);\n}",
            ),
        ),
        _ONE_DEATH,
    ),
    "confirmed in two steps": Fault(
        "native.c",
        (
            (
                "        put(base, own, peek(base, own) + wanted->units[i] - wanted->units[i] * HIGH_ONE);\n",
                "        put(base, own, peek(base, own) - wanted->units[i] * HIGH_ONE);\n"
                "        put(base, own, peek(base, own) + wanted->units[i]);\n",
            ),
        ),
        _ONE_DEATH,
    ),
    "adjusted by giving all back first": Fault(
        "native.c",
        (
            (
                "    int refused = up.count > 0 ? core_take(self->core, &up, 0, rule) : ADMITTED;\n",
                "    core_put_back(self->core, &self->wanted);\n"
                "    int refused = core_take(self->core, wanted, 0, rule);\n",
            ),
            ("    core_put_back(self->core, &down);\n", ""),
        ),
        _ONE_DEATH,
    ),
    "never settled": Fault("recovery.py", (("if self._kept and locks", "if not self._kept and locks"),), _ONE_DEATH),
    "returned without being pending": Fault(
        "recovery.py", (("self._words.store(own, pack(0, pending + held))", "pass"),), _TWO_DEATHS
    ),
    "the count settled after the slots": Fault(
        "recovery.py",
        (
            (
                "if self._swap_natively(index) if hasattr",
                "for slot in sorted(self._kept):\n"
                "            self._words.store(layout.slot_word(slot, index), 0)\n"
                "        if self._swap_natively(index) if hasattr",
            ),
        ),
        _TWO_DEATHS,
    ),
    "named before it is complete": Fault(
        "publishing.py",
        (
            ("        os.pwrite(file, image, 0)\n", ""),
            (
                "        _link(descriptor, file, temporary, name)\n",
                "        _link(descriptor, file, temporary, name)\n        os.pwrite(file, image, 0)\n",
            ),
        ),
        Group("names", "native", "strict", 2),
    ),
}
