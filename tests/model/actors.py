"""One process as an automaton: what it asks for next, given the answers it has got.

The product's code runs unchanged. Each access to what is shared is a request; the answer comes from the world. Code
cannot be stopped and kept, so it is run again from the beginning of its step: the answers it has got already are given
once more, and at the first request without an answer the run is thrown away. As the code does the same on the same
answers, each history is run once, and its outcome kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

Request = tuple[Any, ...]
Answer = Any


class Failed(NamedTuple):
    """The answer of a system call that fails."""

    errno: int


class Suspended(BaseException):
    """The code has come to a request that has no answer yet."""


class Again(BaseException):
    """The code waits: its step begins once more."""


class Fault(Exception):
    """Something that must never happen."""


class Run:
    """One run of one step: gives the answers there are, and notes the first request without one."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self._given = 0
        self.request: Request | None = None
        self.fresh = True  # no request yet in this step

    def ask(self, *request: Any) -> Answer:
        if self.request is None and self._given < len(self._answers):
            self.fresh = False
            answer = self._answers[self._given]
            self._given += 1
            if isinstance(answer, Failed):
                raise OSError(answer.errno, os.strerror(answer.errno))
            return answer
        if self.request is None:
            self.request = request
        raise Suspended

    def step_done(self) -> None:
        self.fresh = True


class Step(Protocol):
    """Something a process does, from the product's interface. ``knows`` is what its caller knows, before and after."""

    def act(self, stage: Any, knows: Any, /) -> Any: ...

    def during(self, knows: Any, /) -> Any:
        """What the caller knows while it is under way."""


class Node:
    """Where an actor stands: about to make ``request``, or done (None), or at fault."""

    __slots__ = ("actor", "answers", "fault", "fresh", "knows", "next", "number", "request", "where")

    def __init__(self, actor: int, number: int, where: tuple[int, Any], answers: tuple[Answer, ...]) -> None:
        self.actor = actor
        self.number = number
        self.where = where
        self.answers = answers
        self.next: dict[Answer, Node] = {}
        self.request: Request | None = None
        self.fault: str | None = None
        self.fresh = True  # no request of its step has been answered yet
        self.knows: Any = None  # what the caller knows


class Actor:
    """A process that takes its steps one after the other; a resident one begins again.

    ``stage`` builds what a process has of its own, for a run. ``forgets``: nothing but what the caller knows is kept
    from one step to the next, so that histories end with a step.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        knows: Any,
        *,
        resident: bool = False,
        forgets: bool = True,
        mortal: bool = True,
    ) -> None:
        self.name = name
        self.steps = steps
        self.knows = knows
        self.resident = resident
        self.forgets = forgets
        self.mortal = mortal


class Automaton:
    """The nodes of one actor, made as they are needed; ``nodes`` is all actors' together."""

    def __init__(self, actor: Actor, index: int, stage: Callable[[int, Run], Any], nodes: list[Node]) -> None:
        self._actor = actor
        self._index = index
        self._stage = stage
        self._all = nodes
        self._known: dict[tuple[Any, ...], Node] = {}
        self.root = self._node((0, actor.knows), ())

    def after(self, node: Node, answer: Answer) -> Node:
        found = node.next.get(answer)
        if found is None:
            found = node.next[answer] = self._node(node.where, (*node.answers, answer))
        return found

    def _node(self, where: tuple[int, Any], answers: tuple[Answer, ...]) -> Node:
        key = (where, answers)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._run(where, answers)
        return found

    def _run(self, where: tuple[int, Any], answers: tuple[Answer, ...]) -> Node:
        run = Run(answers)
        step, knows = where
        stage = self._stage(self._index, run)
        node = Node(self._index, len(self._all), where, answers)
        try:
            while step < len(self._actor.steps):
                knows = self._actor.steps[step].act(stage, knows)
                step += 1
                if self._actor.resident:
                    step %= len(self._actor.steps)
                if self._actor.forgets:
                    return self._node((step, knows), ())
                run.step_done()
        except Suspended:
            node.request = run.request
        except Again:
            return self._node((step, knows), ())
        except Exception as error:
            node.fault = f"{type(error).__name__}: {error}"
        node.fresh = run.fresh
        node.knows = knows if run.fresh or node.request is None else self._actor.steps[step].during(knows)
        self._all.append(node)
        return node
