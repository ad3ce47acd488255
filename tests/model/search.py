"""All states that several actors on one world can reach, breadth first: a fault is found by a shortest schedule.

A state is the world, where each actor stands, and the deaths so far; equal states are one. No bound on preemptions: at
each state each actor may go on, or die while deaths are left. A resident one that died is there again, from its start.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.model.actors import Actor, Answer, Automaton, Fault, Node, Request, Run

Schedule = tuple[int, ...]  # actor a goes on: 2 * a; it dies: 2 * a + 1
_State = tuple[int, ...]  # number of the world; deaths, and those of residents; each actor's node, or GONE
GONE = -1


class Model(Protocol):
    """A world and the actors on it."""

    actors: tuple[Actor, ...]
    deaths: int
    resident_deaths: int
    peak: int
    start: Any

    def stage(self, index: int, run: Run, /) -> Any: ...

    def apply(self, node: Node, world: Any, /) -> tuple[Answer, Any] | None: ...

    def die(self, actor: int, world: Any, /) -> Any: ...

    def is_wanted(self, world: Any, /) -> bool: ...

    def faults(self, world: Any, /) -> str | None: ...

    def judge(self, world: Any, nodes: Sequence[Node], /) -> str | None: ...

    def judge_end(self, world: Any, nodes: Sequence[Node], /) -> str | None: ...

    def describe(self, request: Request, /) -> str: ...


@dataclass(frozen=True)
class Outcome:
    """``complete``: no state was left out. A fault comes with its shortest schedule."""

    states: int
    steps: int
    ends: int
    complete: bool = True
    fault: str | None = None
    schedule: Schedule = ()


class _Found(Exception):
    def __init__(self, fault: str, number: int, move: int | None) -> None:
        self.fault, self.number, self.move = fault, number, move


class Search:
    """One search. ``most`` states at most."""

    def __init__(self, model: Model, most: int = 10_000_000) -> None:
        self._model = model
        self._most = most
        self._nodes: list[Node] = []
        self._automata = [Automaton(actor, i, model.stage, self._nodes) for i, actor in enumerate(model.actors)]
        self._roots = [automaton.root.number for automaton in self._automata]
        self._worlds: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._wanted: list[bool] = []
        self._effects: dict[tuple[int, Hashable], tuple[Answer, int] | str | None] = {}
        self._deaths: dict[tuple[int, int], int] = {}
        self._parents = array("I", [0])
        self._moves = array("B", [0])
        self._seen: dict[_State, int] = {}
        self._queue: deque[_State] = deque()
        self._edges, self._first = array("I"), array("Q", [0])
        self._ends = array("I")

    def run(self) -> Outcome:
        try:
            self._first_state()
            self._explore()
            if len(self._seen) < self._most:
                self._check_that_all_end()
        except _Found as found:
            schedule = self._schedule(found.number) + (() if found.move is None else (found.move,))
            return Outcome(len(self._seen), len(self._edges), len(self._ends), False, found.fault, schedule)
        return Outcome(len(self._seen), len(self._edges), len(self._ends), len(self._seen) < self._most)

    def _first_state(self) -> None:
        state = (self._number(self._model.start), 0, 0, *self._roots)
        self._seen[state] = 0
        self._queue.append(state)
        self._judge(state, 0, None)

    def _explore(self) -> None:
        number = 0
        while self._queue and len(self._seen) < self._most:
            state = self._queue.popleft()
            steps = self._steps(state, number)
            self._edges.extend([self._add(after, number, move) for after, move in steps])
            self._first.append(len(self._edges))
            if not steps:
                self._end(state, number)
            for after, move in self._all_deaths(state):
                self._add(after, number, move)
            number += 1

    def _add(self, state: _State, parent: int, move: int) -> int:
        number = self._seen.get(state)
        if number is None:
            number = self._seen[state] = len(self._seen)
            self._parents.append(parent)
            self._moves.append(move)
            self._queue.append(state)
            self._judge(state, parent, move)
        return number

    # --- moves --------------------------------------------------------------------------------------------------------

    def _steps(self, state: _State, number: int) -> list[tuple[_State, int]]:
        found, world = [], state[0]
        for actor, where in enumerate(state[3:]):
            if where == GONE or not self._may_go_on(actor, where, world):
                continue
            effect = self._effect(world, where)
            if isinstance(effect, str):
                raise _Found(effect, number, 2 * actor)
            if effect is not None:
                answer, after = effect
                node = self._automata[actor].after(self._nodes[where], answer)
                if node.fault is not None:
                    raise _Found(node.fault, number, 2 * actor)
                found.append(((after, *state[1 : 3 + actor], node.number, *state[4 + actor :]), 2 * actor))
        return found

    def _may_go_on(self, actor: int, where: int, world: int) -> bool:
        if self._nodes[where].request is None:
            return False
        return where != self._roots[actor] or self._wanted[world] or not self._model.actors[actor].resident

    def _effect(self, world: int, where: int) -> tuple[Answer, int] | str | None:
        """The answer to a node's request and the world after it, or None: it waits; or a fault."""
        node = self._nodes[where]
        key = (world, (node.actor, node.fresh, node.request))
        if key not in self._effects:
            try:
                effect = self._model.apply(node, self._worlds[world])
                self._effects[key] = effect if effect is None else (effect[0], self._number(effect[1]))
            except Fault as fault:
                self._effects[key] = str(fault)
        return self._effects[key]

    def _all_deaths(self, state: _State) -> list[tuple[_State, int]]:
        found = []
        for actor, where in enumerate(state[3:]):
            after = None if where == GONE else self._death(state, actor, where)
            if after is not None:
                found.append((after, 2 * actor + 1))
        return found

    def _death(self, state: _State, actor: int, where: int) -> _State | None:
        model, (world, deaths, resident_deaths) = self._model, state[:3]
        if model.actors[actor].resident:
            resident_deaths += 1
            if resident_deaths > model.resident_deaths or where == self._roots[actor]:
                return None
            left = self._roots[actor]
        else:
            deaths += 1
            if deaths > model.deaths or not model.actors[actor].mortal:
                return None
            left = GONE
        key = (world, actor)
        if key not in self._deaths:
            self._deaths[key] = self._number(model.die(actor, self._worlds[world]))
        return (self._deaths[key], deaths, resident_deaths, *state[3 : 3 + actor], left, *state[4 + actor :])

    # --- judgements ---------------------------------------------------------------------------------------------------

    def _number(self, world: Any) -> int:
        number = self._numbers.get(world)
        if number is None:
            fault = self._model.faults(world)
            if fault is not None:
                raise Fault(fault)
            number = self._numbers[world] = len(self._worlds)
            self._worlds.append(world)
            self._wanted.append(self._model.is_wanted(world))
        return number

    def _judge(self, state: _State, parent: int, move: int | None) -> None:
        fault = self._model.judge(self._worlds[state[0]], self._living(state))
        if fault is not None:
            raise _Found(fault, parent, move)

    def _end(self, state: _State, number: int) -> None:
        """Nobody can go on. That is an end if nobody has anything left to do."""
        for actor, where in enumerate(state[3:]):
            if where != GONE and not self._model.actors[actor].resident and self._nodes[where].request is not None:
                raise _Found(f"{self._model.actors[actor].name} waits for ever", number, None)
        fault = self._model.judge_end(self._worlds[state[0]], self._living(state))
        if fault is not None:
            raise _Found(fault, number, None)
        self._ends.append(number)

    def _living(self, state: _State) -> list[Node]:
        return [self._nodes[where] for where in state[3:] if where != GONE]

    def _check_that_all_end(self) -> None:
        """I5. States are looked at from the last to the first, since most steps lead onwards, until nothing changes."""
        good = bytearray(len(self._seen))
        for number in self._ends:
            good[number] = 1
        edges, first, more = self._edges, self._first, True
        while more:
            more = False
            for number in range(len(good) - 1, -1, -1):
                if not good[number] and any(good[after] for after in edges[first[number] : first[number + 1]]):
                    good[number] = more = True
        if 0 in good:
            raise _Found("I5: from here on it never ends", good.index(0), None)

    def _schedule(self, number: int) -> Schedule:
        moves: list[int] = []
        while number:
            moves.append(self._moves[number])
            number = self._parents[number]
        return tuple(reversed(moves))


def replay(model: Model, schedule: Schedule) -> list[str]:
    """What happens by a schedule, a line a move."""
    nodes: list[Node] = []
    automata = [Automaton(actor, i, model.stage, nodes) for i, actor in enumerate(model.actors)]
    at, world, lines = [automaton.root for automaton in automata], model.start, []
    for move in schedule:
        actor = move // 2
        name = model.actors[actor].name
        if move % 2:
            world, at[actor] = model.die(actor, world), automata[actor].root
            lines.append(f"{name} dies")
            continue
        request = at[actor].request
        assert request is not None, f"{name} has nothing left to do"
        try:
            effect = model.apply(at[actor], world)
        except Fault as fault:
            return [*lines, f"{name}: {model.describe(request)}: {fault}"]
        assert effect is not None, f"{name} has to wait"
        lines.append(f"{name}: {model.describe(request)} -> {effect[0]}")
        at[actor], world = automata[actor].after(at[actor], effect[0]), effect[1]
    return lines
