"""The model of opening, replacing and unlinking: never two caps under one name, never half a segment, nobody stuck.

O1  all who are attached to segments in use are attached to one
O2  the name is that one's for as long as anybody is
O3  what stands under the name is complete
O4  an error that tells of others attached is right: there were some when the directory's lock was taken
O5  who is not attached has nothing open, so nobody is in the way of others; the temporary name is cleaned up
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hardcap import layout
from hardcap.config import Config, Mode
from hardcap.errors import ModeMismatch, SegmentError
from tests.model.actors import Actor, Answer, Node, Request, Run, Step
from tests.model.files import PATH, Files, FileWords, Kernel, call, word_of
from tests.model.product import Edit, Product

NAME = "cap"


class Knows(NamedTuple):
    """The file a process is attached to, if any, and whether it was told that others were in the way."""

    file: int | None = None
    in_the_way: bool = False


class Stage:
    """What one process has of its own, for one run."""

    def __init__(self, product: Product, run: Run) -> None:
        self.product = product
        self.segment: Any = None
        self.words: Callable[[Any, Any], FileWords] = lambda _mode, memory: FileWords(run, memory)


@dataclass(frozen=True)
class Attach:
    """Attach or build; another mode than the attached ones' is an error."""

    mode: Mode = Mode.strict
    limit: int = 2

    def act(self, stage: Stage, _knows: Knows) -> Knows:
        config = Config(NAME, limit=self.limit, mode=self.mode, directory=PATH, max_processes=1)
        try:
            stage.segment = stage.product.attaching.attach(config, stage.words)
        except ModeMismatch:
            return Knows(None, True)
        return Knows(stage.segment.words.file)

    def during(self, _knows: Knows) -> Knows:
        return Knows()


@dataclass(frozen=True)
class Use:
    """As after a refusal: a retired segment is let go of."""

    def act(self, stage: Stage, knows: Knows) -> Knows:
        if stage.segment is None:
            return knows
        if not stage.segment.end():
            return knows
        stage.segment.retire_nameless()
        return Close().act(stage, knows)

    def during(self, knows: Knows) -> Knows:
        return knows


@dataclass(frozen=True)
class Close:
    """Let go, if attached."""

    def act(self, stage: Stage, knows: Knows) -> Knows:
        segment, stage.segment = stage.segment, None
        if segment is None:
            return knows
        segment.close()
        return Knows()

    def during(self, _knows: Knows) -> Knows:
        return Knows()


@dataclass(frozen=True)
class Unlink:
    """Nothing there, and others attached, are errors."""

    force: bool = False

    def act(self, stage: Stage, _knows: Knows) -> Knows:
        try:
            stage.product.removing.unlink(NAME, PATH, stage.words, force=self.force)
        except SegmentError as error:
            if error.found not in ("nothing", "processes attached to it"):
                raise
            return Knows(None, error.found != "nothing")
        return Knows()

    def during(self, _knows: Knows) -> Knows:
        return Knows()


@dataclass(frozen=True)
class Scenario:
    """Who does what in one directory. ``unnamed``: its file system knows files without a name."""

    processes: tuple[tuple[Step, ...], ...]
    deaths: int = 0
    unnamed: bool = True
    bound = None

    def model(self, edits: tuple[Edit, ...] = ()) -> Opening:
        return Opening(self, edits)


class Opening:
    """The model of one scenario, for the search."""

    resident_deaths = 0
    peak = 0

    def __init__(self, scenario: Scenario, edits: tuple[Edit, ...]) -> None:
        self.scenario = scenario
        self.deaths = scenario.deaths
        self.actors = tuple(Actor("ABC"[i], p, Knows(), forgets=False) for i, p in enumerate(scenario.processes))
        self._kernel = Kernel()
        self._product = Product(self._kernel.modules(), edits)
        self.start = Files((), (), frozenset(), frozenset(), None, (False,) * len(self.actors))

    def stage(self, _index: int, run: Run) -> Stage:
        self._kernel.run = run
        self._product.descriptors._descriptors.clear()  # a process of its own
        return Stage(self._product, run)

    def apply(self, node: Node, files: Files) -> tuple[Answer, Files] | None:
        assert node.request is not None
        effect = call(files, node.actor, node.request, self.scenario.unnamed)
        if effect is None or node.request[0] != "flock":
            return effect
        others = [present for other, present in enumerate(_attending(files, len(self.actors))) if other != node.actor]
        ghost = tuple(any(others) if actor == node.actor else old for actor, old in enumerate(files.ghost))
        return effect[0], effect[1]._replace(ghost=ghost)

    def die(self, actor: int, files: Files) -> Files:
        return files.without(frozenset(found for found in files.open if found.actor == actor))

    def is_wanted(self, _files: Files) -> bool:
        return False

    def faults(self, files: Files) -> str | None:
        file = files.file(NAME)
        if file is None:
            return None
        content = files.contents[file]
        complete = len(content) == layout.segment_bytes(1) and word_of(content, layout.H_MAGIC) == layout.MAGIC
        limit = word_of(content, layout.limit_word(0)) if complete else 0
        if not limit and not (complete and word_of(content, layout.H_RETIRED)):
            return "O3: half a segment stands under the name"
        return None

    def judge(self, files: Files, nodes: Sequence[Node]) -> str | None:
        attached = {node.knows.file for node in nodes if node.knows.file is not None}
        in_use = {file for file in attached if not word_of(files.contents[file], layout.H_RETIRED)}
        if len(in_use) > 1:
            return f"O1: files {sorted(in_use)} are in use under one name"
        if in_use and files.file(NAME) not in in_use:
            return f"O2: the name is file {files.file(NAME)}'s, in use is {in_use}"
        for node in nodes:
            if node.fresh and node.knows.in_the_way and not files.ghost[node.actor]:
                return "O4: somebody is told of others attached, and nobody was"
            if node.fresh and node.knows.file is None and any(found.actor == node.actor for found in files.open):
                return "O5: who is not attached has something open"
        return None

    def judge_end(self, files: Files, nodes: Sequence[Node]) -> str | None:
        if len(nodes) == len(self.actors) and {name for name, _ in files.names} - {NAME}:
            return f"O5: left behind: {files.names}"
        return None

    def describe(self, request: Request) -> str:
        return " ".join([request[0], *(str(part)[:40] for part in request[1:])])


def _attending(files: Files, actors: int) -> list[bool]:
    """By actor, whether it attends what stands under the name."""
    at = (files.file(NAME), layout.ATTENDANCE_BYTE)
    return [any(lock[:2] == at and lock.actor == actor for lock in files.locks) for actor in range(actors)]


VISIT = (Attach(), Close())
OTHER = (Attach(Mode.approximate), Close())

OPENING = {
    "opening, three at once": Scenario((VISIT, VISIT, VISIT), deaths=1),
    "opening, again and again": Scenario((VISIT * 2, VISIT), deaths=1),
    "opening, by a temporary name": Scenario((VISIT, VISIT, VISIT), deaths=2, unnamed=False),
    "opening, in two modes": Scenario((VISIT * 2, OTHER), deaths=1),
    "opening, with two limits": Scenario((VISIT, (Attach(limit=3), Close())), deaths=1),
    "unlinking": Scenario((VISIT, (Unlink(),), VISIT), deaths=1),
    "unlinking by force": Scenario(((Attach(), Use(), Close()), (Unlink(force=True),), VISIT), deaths=2),
}
