"""What a process may do, by the product's own interface, and what its caller knows before, amid and after it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.model.actors import Fault
from tests.model.words import DIRECTORY, WAIT

Units = tuple[int, ...]
Wanted = tuple[tuple[int, int], ...]


class Knows(NamedTuple):
    """The slot a process has, if any, and the units its caller holds, by resource."""

    slot: int | None
    units: Units


def changed(units: Units, wanted: Wanted, sign: int) -> Units:
    by_index = dict(wanted)
    return tuple(held + sign * by_index.get(index, 0) for index, held in enumerate(units))


class _Step:
    def during(self, knows: Knows) -> Knows:
        return knows


@dataclass(frozen=True)
class Reserve(_Step):
    """Admitted or refused, at once."""

    wanted: Wanted = ((0, 1),)

    def act(self, stage: Any, knows: Knows) -> Knows:
        refused = stage.admission(knows).reserve(self.wanted, 0)
        return knows if refused >= 0 else knows._replace(units=changed(knows.units, self.wanted, 1))


@dataclass(frozen=True)
class Release(_Step):
    """Also of what is not held: then it must be an error."""

    wanted: Wanted = ((0, 1),)

    def act(self, stage: Any, knows: Knows) -> Knows:
        after = changed(knows.units, self.wanted, -1)
        try:
            stage.admission(knows).release(self.wanted)
        except stage.ReleaseError:
            if min(after) >= 0:
                raise Fault(f"a release of {self.wanted} is refused, held {knows.units}") from None
            return knows
        if min(after) < 0:
            raise Fault(f"a release of {self.wanted} succeeds, held {knows.units}")
        return knows._replace(units=after)

    def during(self, knows: Knows) -> Knows:
        after = changed(knows.units, self.wanted, -1)
        return knows if min(after) < 0 else knows._replace(units=after)


@dataclass(frozen=True)
class Adjust(_Step):
    """All that is held, if anything, is changed to this, as by a permit; or it is refused."""

    wanted: Wanted

    def act(self, stage: Any, knows: Knows) -> Knows:
        held = tuple((index, units) for index, units in enumerate(knows.units) if units)
        if not held:
            return knows
        permit = SimpleNamespace(_admission=stage.admission(knows), _swap=lambda seen, wanted: True)
        refused = stage.product.portable_limiter.PortablePermit._replace(permit, held, self.wanted, True)
        return knows if refused >= 0 else knows._replace(units=self._after(knows))

    def during(self, knows: Knows) -> Knows:
        """Of each resource what it holds in any case."""
        return knows._replace(units=tuple(map(min, knows.units, self._after(knows))))

    def _after(self, knows: Knows) -> Units:
        return changed((0,) * len(knows.units), self.wanted, 1)


@dataclass(frozen=True)
class Reap(_Step):
    """One sweep."""

    def act(self, stage: Any, knows: Knows) -> Knows:
        stage.product.recovery.sweep(stage.segment)
        return knows


@dataclass(frozen=True)
class SetLimit(_Step):
    """Under the directory's lock; returned once that is dropped."""

    limits: tuple[tuple[int, int], ...]

    def act(self, stage: Any, knows: Knows) -> Knows:
        stage.run.ask(WAIT, stage.segment.lock, DIRECTORY)
        stage.segment.set_limits(dict(self.limits))
        stage.run.ask("unlock", stage.segment.lock, DIRECTORY)
        return knows


@dataclass(frozen=True)
class Claim(_Step):
    """A slot, however long it takes."""

    def act(self, stage: Any, knows: Knows) -> Knows:
        return knows._replace(slot=stage.product.ownership.claim(stage.segment))


@dataclass(frozen=True)
class Leave(_Step):
    """Give back what is held, mark the slot free, drop its lock."""

    def act(self, stage: Any, knows: Knows) -> Knows:
        def clear_up() -> None:
            admission.give_back_all()
            stage.product.slots.mark_free(stage.segment, knows.slot)
            admission.let_go()
            stage.product.locks.drop_all(stage.segment.lock)

        admission = stage.admission(knows)
        admission.close(clear_up)
        return self.during(knows)

    def during(self, knows: Knows) -> Knows:
        return Knows(None, (0,) * len(knows.units))
