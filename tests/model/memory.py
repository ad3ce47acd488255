"""The model of the shared memory: actors on one segment, what must hold in each state, and when nothing is left to do.

Invariants, by the numbers of ``hardcap.recovery``; besides: a slot has one owner, and between two steps an owner's
slot says what its caller knows, of each resource. So a reservation of several takes all or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hardcap import layout
from hardcap.config import Mode
from hardcap.errors import ReleaseError
from hardcap.header import Shape
from hardcap.layout import MAX_LIMIT, high, low, pack
from tests.model.actors import Actor, Answer, Fault, Node, Request, Run
from tests.model.product import Edit, Product
from tests.model.steps import Knows
from tests.model.words import (
    DIRECTORY,
    Locks,
    ScheduledWords,
    State,
    change_lock,
    change_word,
    drop_all,
    put,
    system,
    word_names,
)


@dataclass(frozen=True)
class Scenario:
    """Who does what on which segment. The first ``owners`` actors own the slots of their numbers from the start."""

    actors: tuple[Actor, ...]
    owners: int
    limits: tuple[int, ...] = (2,)
    slots: int | None = None
    mode: Mode = Mode.strict
    deaths: int = 0
    reaper_deaths: int = 0
    bound: int | None = None  # what approximate mode may have in flight, and must reach
    totals: bool = False  # watched too
    settle_tries: int = 1

    def model(self, edits: tuple[Edit, ...] = ()) -> Memory:
        return Memory(self, edits)


class Stage:
    """What one process has of its own, for one run."""

    ReleaseError = ReleaseError

    def __init__(self, model: Memory, index: int, run: Run) -> None:
        self.product = model.product
        self.run = run
        self._kept: Any = None
        words = ScheduledWords(run, model.positions, model.fixed)
        own, sweeps = 2 * index, 2 * index + 1
        sweeper = self.product.locks.Sweeper(sweeps)
        self.segment = self.product.segment.Segment("memory", model.shape, own, None, words, sweeper)

    def admission(self, knows: Knows) -> Any:
        """The admission on this process's slot, the same for as long as this run."""
        if self._kept is None or self._kept.slot != knows.slot:
            strict = self.segment.shape.mode is Mode.strict
            kind = self.product.strict.Strict if strict else self.product.approximate.Approximate
            self._kept = kind(self.segment, knows.slot)
        return self._kept


class Memory:
    """The model of one scenario, for the search."""

    def __init__(self, scenario: Scenario, edits: tuple[Edit, ...]) -> None:
        self.scenario = scenario
        self.actors = scenario.actors
        self.deaths, self.resident_deaths = scenario.deaths, scenario.reaper_deaths
        self._locks = Locks()
        self.product = Product(system(self._locks), edits)
        self.product.descriptors.is_ours = lambda _descriptor: True  # no other code closes any here
        self.product.recovery.SETTLE_TRIES = min(self.product.recovery.SETTLE_TRIES, scenario.settle_tries)
        resources = range(len(scenario.limits))
        self.slots = scenario.slots or scenario.owners
        self.shape = Shape(scenario.mode, tuple(f"r{index}" for index in resources), self.slots)
        self._resources = resources
        self._prepare()
        self.peak = 0

    def _prepare(self) -> None:
        """Which words matter here, and the first state."""
        steps = {type(step).__name__ for actor in self.actors for step in actor.steps}
        initial = {layout.global_word(i): 0 for i in self._resources if self.shape.mode is Mode.strict}
        self.fixed: dict[int, int] = {}
        self._limited = "SetLimit" in steps
        limits = {layout.limit_word(i): limit for i, limit in enumerate(self.scenario.limits)}
        (initial if self._limited else self.fixed).update(limits)
        (initial if "Claim" in steps else self.fixed)[layout.H_HIGH_WATER] = self.scenario.owners
        for slot in range(self.slots):
            initial[layout.slot(slot) + layout.S_STATE] = pack(int(slot < self.scenario.owners), 0)
            initial |= {layout.slot_word(slot, i): 0 for i in self._resources}
            if self.scenario.totals:
                initial |= {layout.slot(slot) + word: 0 for word in (layout.S_ADMITTED, layout.S_RELEASED)}
        self.positions = {word: position for position, word in enumerate(initial)}
        self.names = word_names(len(self._resources), self.slots)
        at = self.positions.get
        self._global = [at(layout.global_word(i), -1) for i in self._resources]
        self._limit = [at(layout.limit_word(i), -1) for i in self._resources]
        self._own = [[self.positions[layout.slot_word(s, i)] for i in self._resources] for s in range(self.slots)]
        self._state = [self.positions[layout.slot(s) + layout.S_STATE] for s in range(self.slots)]
        self._totals = [self.positions[w] for w in self.positions if self.scenario.totals and _is_total(w, self.slots)]
        locks = (*(1 + 2 * s if s < self.scenario.owners else 0 for s in range(self.slots)), 0, 0)
        limits_now = tuple(self.scenario.limits)
        self.start = State(tuple(initial.values()), locks, (limits_now,) * (1 + len(self.actors)))

    def stage(self, index: int, run: Run) -> Stage:
        self._locks.run = run
        return Stage(self, index, run)

    # --- steps --------------------------------------------------------------------------------------------------------

    def apply(self, node: Node, state: State) -> tuple[Answer, State] | None:
        """The answer to a node's request, and the state after it. None: it waits. Raises Fault."""
        request = node.request
        assert request is not None
        if self._limited and node.fresh:
            state = self._begin(node.actor, state)
        if request[0] == "unlock all":
            return None, drop_all(state, {request[1]})
        if request[0] in ("lock", "unlock", "is locked", "wait"):
            if request[0] == "unlock" and request[2] == DIRECTORY:
                state = self._limit_set(state)
            return change_lock(state, self._lock_position(request[2]), request)
        answer, after = change_word(state, self.positions[request[1]], request)
        if after.words != state.words:
            after = self._judge(node.actor, state, after)
        return answer, after

    def _lock_position(self, byte: int | str) -> int:
        if byte == DIRECTORY:
            return self.slots + 1
        return self.slots if byte == layout.REAPER_BYTE else int(byte) - layout.SLOT_LOCKS

    def die(self, actor: int, state: State) -> State:
        """The kernel drops its locks; every word stays as it is."""
        return drop_all(state, {2 * actor, 2 * actor + 1})

    # --- I2 with limits that change: ghost = (what may still be decided by, per actor the highest since it began) -----

    def _begin(self, actor: int, state: State) -> State:
        return state._replace(ghost=put(state.ghost, 1 + actor, self._limits(state)))

    def _limit_set(self, state: State) -> State:
        return state._replace(ghost=(self._limits(state), *state.ghost[1:]))

    def _limits(self, state: State) -> tuple[int, ...]:
        return tuple(state.words[position] for position in self._limit)

    def _judge(self, actor: int, before: State, after: State) -> State:
        """What a write may not do, whoever makes it."""
        for index, position in enumerate(self._global):
            if position >= 0 and low(after.words[position]) > low(before.words[position]):
                allowed = min(after.ghost[0][index], after.ghost[1 + actor][index])
                if low(after.words[position]) > allowed:
                    raise Fault(f"I2: the count of resource {index} is {low(after.words[position])}, allowed {allowed}")
        if sum(after.words[w] for w in self._totals) < sum(before.words[w] for w in self._totals):
            raise Fault("a total goes back")
        if self._limited:
            limits = self._limits(after)
            ghost = tuple(tuple(map(max, seen, limits)) for seen in after.ghost)
            after = after._replace(ghost=ghost)
        return after

    # --- states -------------------------------------------------------------------------------------------------------

    def is_wanted(self, state: State) -> bool:
        """Whether there is something for a resident reaper to do: a dead owner whose lock is to be had."""
        return any(self._needs_recovery(slot, state) for slot in range(self.slots) if not state.locks[slot])

    def _needs_recovery(self, slot: int, state: State) -> bool:
        words = state.words
        live = low(words[self._state[slot]]) == layout.STATE_LIVE
        return live or any(words[position] for position in self._own[slot])

    def faults(self, state: State) -> str | None:
        """What is wrong with the memory alone."""
        words = state.words
        for index in self._resources:
            values = [words[own[index]] for own in self._own]
            halves = [half for value in values for half in (low(value), high(value))]
            held = sum(map(low, values))
            position = self._global[index]
            if position >= 0:
                halves.append(low(words[position]))
                if held > low(words[position]):
                    return f"I1: {low(words[position])} of resource {index} counted, {held} held"
            if max(halves) > MAX_LIMIT:
                return f"I3: something of resource {index} is negative"
        return None

    def judge(self, state: State, nodes: Sequence[Node]) -> str | None:
        """What is wrong between the memory and what the living know; ``nodes`` are theirs."""
        slots = [node.knows.slot for node in nodes if node.knows.slot is not None]
        if len(slots) > len(set(slots)):
            return f"slots {slots} have owners, allowed: one a slot"
        for node in nodes:
            if node.fresh and node.knows.slot is not None:
                own = tuple(state.words[position] for position in self._own[node.knows.slot])
                if own != node.knows.units:
                    return f"slot {node.knows.slot} has {own}, its owner holds {node.knows.units}"
        return self._judge_sum(state, nodes)

    def _judge_sum(self, state: State, nodes: Sequence[Node]) -> str | None:
        for index, position in enumerate(self._global):
            held = sum(node.knows.units[index] for node in nodes)
            if position < 0:
                self.peak = max(self.peak, held)
                bound = self.scenario.bound
                if bound is not None and held > bound:
                    return f"{held} in flight, allowed {bound}"
            elif held > low(state.words[position]):
                return f"I1: {low(state.words[position])} of resource {index} counted, the living hold {held}"
            elif not self._limited and held > self.scenario.limits[index]:
                return f"I2: the living hold {held} of resource {index}, allowed {self.scenario.limits[index]}"
        return None

    def judge_end(self, state: State, nodes: Sequence[Node]) -> str | None:
        """What is wrong where nothing is left to do."""
        owned = {node.knows.slot for node in nodes}
        for slot in range(self.slots):
            if slot not in owned and (state.locks[slot] or self._needs_recovery(slot, state)):
                return f"slot {slot} is not free, and nobody's"
        for index, position in enumerate(self._global):
            held = sum(node.knows.units[index] for node in nodes)
            if position >= 0 and low(state.words[position]) != held:
                return f"I4: {low(state.words[position])} of resource {index} counted, the living hold {held}"
        return None

    def describe(self, request: Request) -> str:
        kind, where, *rest = request
        if kind in ("load", "store", "add", "swap"):
            return " ".join([kind, self.names[where], *map(_halves, rest)])
        what = ["own" if where % 2 == 0 else "sweep's", *(self._lock_name(byte) for byte in rest)]
        return " ".join([kind, *what])

    def _lock_name(self, byte: int | str) -> str:
        position = self._lock_position(byte)
        return f"slot {position}" if position < self.slots else ("reaper", "directory")[position - self.slots]


def _halves(value: int) -> str:
    value &= layout.U64
    return f"({low(value)}, {high(value)})"


def _is_total(word: int, slots: int) -> bool:
    return any(word - layout.slot(slot) in (layout.S_ADMITTED, layout.S_RELEASED) for slot in range(slots))
