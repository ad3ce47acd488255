"""Lines of the product broken on purpose, each with the scenario in which it must be seen, and as what."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.product import Edit


@dataclass(frozen=True)
class Variant:
    """``fault``: how the text of the fault begins."""

    scenario: str
    fault: str
    edits: tuple[Edit, ...]


def _variant(scenario: str, fault: str, *edits: tuple[str, str, str]) -> Variant:
    return Variant(scenario, fault, tuple(Edit(*edit) for edit in edits))


_SWEEP = """        locks.drop(segment.lock, layout.SLOT_LOCKS + slot)
        sweep(segment)
"""
_LOOK = """        word = self._words.load(self._global[index])
        limit = self._words.load(self._limits[index])
"""
_LOOK_BACKWARDS = """        limit = self._words.load(self._limits[index])
        word = self._words.load(self._global[index])
"""
_MOVE_TOTALS = """            block = layout.slot(slot)
            for field in (layout.S_ADMITTED, layout.S_RELEASED):
                self._words.fetch_add(layout.slot(0) + field, self._words.load(block + field))
                self._words.store(block + field, 0)
            mark_free(self._segment, slot)
"""
_SET_LIMIT = """            self.words.store(layout.limit_word(index), limit)
            if self.shape.mode is Mode.strict:
                self.words.fetch_add(layout.global_word(index), layout.HIGH_ONE)
"""
_SET_LIMIT_BACKWARDS = """            if self.shape.mode is Mode.strict:
                self.words.fetch_add(layout.global_word(index), layout.HIGH_ONE)
            self.words.store(layout.limit_word(index), limit)
"""

_CLOSE = """            self.sweeper.close()
        descriptors.close(self.lock)
"""

VARIANTS = {
    "check, then add": _variant(
        "two owners",
        "I2",
        (
            "strict",
            "return self._words.compare_exchange(self._global[index], before, after)",
            "return self._words.fetch_add(self._global[index], after - before) >= 0",
        ),
    ),
    "reserve announces nothing": _variant(
        "two owners",
        "I4",
        ("strict", "own, word, word + units * HIGH_ONE", "own, word, word"),
        (
            "strict",
            "self._words.fetch_add(self._own[index], units - units * HIGH_ONE)",
            "self._words.fetch_add(self._own[index], units)",
        ),
        (
            "strict",
            "self._words.fetch_add(self._own[index], -units * HIGH_ONE)\n                return False",
            "return False",
        ),
    ),
    "release announces nothing": _variant(
        "two dead, kept apart",
        "I",
        ("strict", "own, word, word - units + units * HIGH_ONE", "own, word, word - units"),
        (
            "strict",
            "HIGH_ONE - units)\n        self._words.fetch_add(self._own[index], -units * HIGH_ONE)",
            "HIGH_ONE - units)",
        ),
    ),
    "reserve moves no version": _variant(
        "two owners, twice",
        "I",
        ("strict", "pack(low(before) + units, high(before) + 1)", "pack(low(before) + units, high(before))"),
        ("strict", "HIGH_ONE - units)", "-units)"),
    ),
    "release that trusts its caller": _variant(
        "released twice",
        "I",
        ("strict", "if self.held(index) < units:", "if False:"),
        ("strict", "if low(word) < units:", "if False:"),
    ),
    "settle ignores what is pending": _variant("two owners", "I", ("recovery", "if high(word):", "if False:")),
    "settle drops what is held": _variant(
        "two dead, kept apart", "I", ("recovery", "if not held:", "if not held or self._kept:")
    ),
    "settle never": _variant(
        "two owners",
        "I5",
        ("recovery", "any(self._swap_once(index) for _ in range(SETTLE_TRIES))", "False"),
    ),
    "return keeps nothing pending": _variant(
        "two owners",
        "I",
        ("recovery", "self._words.store(own, pack(0, pending + held))", "self._words.store(own, pack(0, pending))"),
    ),
    "the count goes down before it is marked": _variant(
        "two owners",
        "I",
        ("recovery", "        self._words.store(own, pack(0, pending + held))\n", ""),
    ),
    "a sweep that asks for the lock": _variant(
        "two reapers",
        "I",
        (
            "recovery",
            "if locks.take(self._lock, layout.SLOT_LOCKS + slot):",
            "if not locks.is_taken(self._lock, layout.SLOT_LOCKS + slot):",
        ),
    ),
    "claim without a clean check": _variant(
        "a newcomer", "slot", ("ownership", "if not is_clean(segment, slot):", "if False:")
    ),
    "a claimer that recovers its own dirty slot": _variant(
        "a newcomer beside two",
        "slot",
        ("ownership", "import sweep", "import _Sweep, sweep"),
        ("ownership", _SWEEP, "        _Sweep(segment, segment.lock).run()\n"),
    ),
    "a claimer that keeps the lock of a dirty slot": _variant(
        "a newcomer stays", "slot", ("ownership", _SWEEP, "        sweep(segment)\n")
    ),
    "the limit before the global word": _variant(
        "a limit lowered and raised", "I2", ("strict", _LOOK, _LOOK_BACKWARDS)
    ),
    "the version before the limit": _variant(
        "a limit lowered and raised", "I2", ("segment", _SET_LIMIT, _SET_LIMIT_BACKWARDS)
    ),
    "the high-water mark read too early": _variant(
        "a newcomer",
        "I",
        (
            "recovery",
            "        before = self._words.load(layout.global_word(index))\n",
            "        self._mark = self._segment.high_water()\n"
            "        before = self._words.load(layout.global_word(index))\n",
        ),
        (
            "recovery",
            "layout.slot_word(0, index), self._segment.high_water(), layout.SLOT_STEP",
            "layout.slot_word(0, index), self._mark, layout.SLOT_STEP",
        ),
    ),
    "the high-water mark never raised": _variant(
        "a newcomer", "I", ("ownership", "    _raise_high_water(segment, slot + 1)\n", "")
    ),
    "totals moved at recovery": _variant(
        "totals",
        "a total",
        ("recovery", "            mark_free(self._segment, slot)\n", _MOVE_TOTALS),
    ),
    "what was taken of several is kept": _variant(
        "two resources, taken back",
        "slot",
        ("strict", "                    self._put_back(taken, more)\n", "                    pass\n"),
    ),
    "an adjustment that gives back first": _variant(
        "adjusted",
        "slot",
        ("portable_limiter", "admission.check_held(down)", "admission.put_back(down)"),
        ("portable_limiter", "if surplus := down if replaced else up:", "if surplus := () if replaced else up:"),
    ),
    "a scan of the slots of old": _variant(
        "approximate, a newcomer",
        "4 in flight",
        ("approximate", "if cells[layout.H_HIGH_WATER] != self._high_water:", "if not self._high_water:"),
    ),
    "a scan that leaves out what is asked for": _variant(
        "approximate, two",
        "4 in flight",
        ("approximate", "self._limits[index]], units + headroom", "self._limits[index]], headroom"),
    ),
    "opening without the directory's lock": _variant(
        "opening, with two limits",
        "",
        ("attaching", "with directory.locked(create=True) as descriptor:", "with directory.opened() as descriptor:"),
    ),
    "published unattended": _variant(
        "opening, again and again",
        "O",
        ("publishing", "        locks.take(lock, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK)\n", ""),
    ),
    "named before it is written": _variant(
        "opening, again and again",
        "O3",
        ("publishing", "        os.pwrite(file, image, 0)\n", ""),
        (
            "publishing",
            "        _link(descriptor, file, temporary, name)\n",
            "        _link(descriptor, file, temporary, name)\n        os.pwrite(file, image, 0)\n",
        ),
    ),
    "joined unattended": _variant(
        "opening, again and again",
        "O",
        ("attaching", "if not locks.take(lock, layout.ATTENDANCE_BYTE, fcntl.F_RDLCK):", "if False:"),
    ),
    "replaced under its users": _variant(
        "opening, again and again",
        "O",
        ("attaching", "if locks.take(lock, layout.ATTENDANCE_BYTE):", "if True:"),
    ),
    "the shape compared before it is known who attends": _variant(
        "opening, in two modes",
        "O4",
        (
            "attaching",
            "    image = read_ours(path, file)\n    lock = descriptors.reopen(file)\n",
            "    image = read_ours(path, file)\n"
            "    _compare(path, config, parse(path, image, file).shape)\n"
            "    lock = descriptors.reopen(file)\n",
        ),
    ),
    "unlinked before it is retired": _variant(
        "unlinking by force",
        "O2",
        (
            "removing",
            "                _let_go(path, file, map_words, force=force)\n"
            "                os.unlink(name, dir_fd=descriptor)\n",
            "                os.unlink(name, dir_fd=descriptor)\n"
            "                _let_go(path, file, map_words, force=force)\n",
        ),
    ),
    "a lock left open": _variant(
        "opening, again and again",
        "O5",
        ("segment", _CLOSE, _CLOSE.replace("        descriptors.close(self.lock)\n", "")),
    ),
    "debris left": _variant(
        "opening, by a temporary name",
        "",
        ("publishing", "        os.unlink(_temporary(name), dir_fd=descriptor)\n", "        pass\n"),
    ),
}
