"""What the ledger proves: whether at any instant more was held than was allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.torture.ledger import Change, Stay

ALWAYS = -1  # before any time there is
NEVER = 1 << 63


@dataclass(frozen=True)
class Verdict:
    """``violations`` counts admissions that went beyond what was allowed; ``peak`` is of the first resource."""

    violations: int
    peak: int


class Limits:
    """Which limits of one resource may have been in force in a stretch of time."""

    def __init__(self, first: int, changes: Iterable[Change]) -> None:
        known = [Change(ALWAYS, ALWAYS, first), *changes]
        self._known = [(change, _superseded_at(change, known)) for change in known]
        self._least = min(change.limit for change in known)

    def allow(self, units: int, since: int, until: int) -> bool:
        """Whether a limit of so many units, or more, may have been in force at some moment between the two."""
        if units <= self._least:
            return True
        return any(
            units <= change.limit and change.called <= until and since <= superseded_at
            for change, superseded_at in self._known
        )


def _superseded_at(change: Change, known: Sequence[Change]) -> int:
    """When a change that surely came later had surely been made."""
    later = [other.returned for other in known if other.called > change.returned]
    return min(later, default=NEVER)


def judge(stays: Sequence[Stay], changes: Sequence[Change], limits: Sequence[int], excess: int) -> Verdict:
    """``excess`` is what the mode allows beyond the limit."""
    verdicts = [
        _judge(stays, index, Limits(limit, () if index else changes), excess) for index, limit in enumerate(limits)
    ]
    return Verdict(sum(verdict.violations for verdict in verdicts), verdicts[0].peak)


def _judge(stays: Sequence[Stay], index: int, limits: Limits, excess: int) -> Verdict:
    """Step through all beginnings and ends; at one instant the ends come first."""
    steps = [(stay.ended, -stay.amounts[index], 0) for stay in stays if stay.amounts[index]]
    steps += [(stay.admitted, stay.amounts[index], stay.called) for stay in stays if stay.amounts[index]]
    violations = held = peak = 0
    for at, units, called in sorted(steps):
        held += units
        peak = max(peak, held)
        violations += units > 0 and not limits.allow(held - excess, called, at)
    return Verdict(violations, peak)
