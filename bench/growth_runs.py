"""The runs behind ``python -m bench growth``: limiters that idle, attaches, deaths, and segments by size."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import hardcap
from bench import attach, machine, processes, stage
from bench.attach import attach_cost, segment_bytes
from bench.baselines import CONTROL, Context, Gate, Hardcap
from bench.crew import Crew
from bench.deaths import Deaths, Reaping
from bench.figures import Figures
from bench.growth_outcome import Attached, Growth
from bench.laps import alternate, pair
from bench.rounds import Step, rotated

IMPORTED: Final = ("bench.growth_runs",)
SLOTS: Final = 512
SIZES: Final = (1, 16, 64, 128, 256, SLOTS)  # of ``max_processes``, whose default is 128
IDLERS: Final = 8  # processes that hold what idles: few enough to start, so many that none needs many descriptors


@dataclass(frozen=True)
class Plan:
    """``rounds`` of pairs, ``attaches`` to each segment, ``reaps`` after each number of deaths."""

    attached: tuple[int, ...]
    deaths: tuple[int, ...]
    rounds: int
    attaches: int
    reaps: int

    def steps(self, modes: int) -> int:
        """How many steps are reported."""
        return 1 + self.rounds + modes * (len(self.attached) + self.reaps * len(self.deaths))


QUICK: Final = Plan(attached=(1, 4, 16, 64, 256), deaths=(1, 16, 64), rounds=100, attaches=10, reaps=2)
FULL: Final = Plan(attached=(1, 4, 16, 64, 256), deaths=(1, 16, 64), rounds=1000, attaches=50, reaps=10)


@dataclass(frozen=True)
class Roomy(Hardcap):
    """hardcap in segments with as many slots as are asked for."""

    slots: int = SLOTS

    def open(self, name: str, limit: int) -> hardcap.Limiter:
        return hardcap.open(
            name,
            limit=limit,
            mode=self.mode,
            backend=self.backend,
            directory=self.directory,
            max_processes=self.slots,
        )


def measure(plan: Plan, scratch: Path | None) -> Growth:
    """Everything, in this order. Raises ``WorkerFailed``."""
    context = processes.context(IMPORTED)
    with stage.segments(scratch) as directory:
        modes = stage.fastest_first(stage.modes(directory))
        with stage.progress(plan.steps(len(modes))) as step:
            cells = _cells(context, modes, plan, step)
            reapings = _reapings(context, modes, plan, step)
        backends = stage.backends(modes)
        return Growth(machine.describe(backends), modes, cells, reapings, _sizes(modes[0]))


def _apart(mode: Hardcap, place: object) -> Roomy:
    """The mode in a directory of its own."""
    directory = Path(mode.directory, f"{mode.mode}-{mode.backend}-{place}")
    directory.mkdir(mode=0o700)
    return Roomy(mode.mode, mode.backend, str(directory))


def _cells(context: Context, modes: Sequence[Hardcap], plan: Plan, step: Step) -> list[Attached]:
    subjects = [(_apart(mode, attached), attached) for mode, attached in product(modes, plan.attached)]
    figures = [Figures(subject, attached, attach.LIMIT) for subject, attached in subjects]
    with ExitStack() as leave:
        limiters = [leave.enter_context(subject.open(attach.NAME, attach.LIMIT)) for subject, _ in subjects]
        idle = [partial(_attach_idle, subject, attached - 1) for subject, attached in subjects]
        step("attaching what idles")
        leave.enter_context(Crew(context, idle, IDLERS)).attached()
        alive = [sum(process.alive for process in limiter.snapshot().processes) for limiter in limiters]
        laps = [pair(Gate(limiter.reserve, limiter.release, limiter.close)) for limiter in limiters]
        alternate(laps, figures, plan.rounds, step)
        costs = []
        for subject, attached in subjects:
            step(f"attaching to {subject.name}, {attached} attached")
            costs.append(attach_cost(subject, plan.attaches))
    return [
        Attached(subject, attached, pairs, cost)
        for (subject, _), attached, pairs, cost in zip(subjects, alive, figures, costs, strict=True)
    ]


def _attach_idle(subject: Roomy, idle: int, index: int) -> Gate:
    """What of ``idle`` limiters is this process's part."""
    with ExitStack() as leave:
        for _ in range(index, idle, IDLERS):
            leave.enter_context(subject.open(attach.NAME, attach.LIMIT))
        return Gate(_nothing, _nothing, leave.pop_all().close)


def _reapings(context: Context, modes: Sequence[Hardcap], plan: Plan, step: Step) -> list[Reaping]:
    subjects = [_apart(mode, "deaths") for mode in modes]
    reapings = [Reaping(subject, deaths, []) for subject, deaths in product(subjects, plan.deaths)]
    with Crew(context, [CONTROL.share(context, 1, 1)], 1) as crew:
        crew.attached()
        for turn in range(plan.reaps):
            for index in rotated(len(reapings), turn):
                reaping = reapings[index]
                step(f"{reaping.deaths} deaths: {reaping.subject.name}")
                reaping.reaps.extend(crew.run(0, Deaths(reaping.subject, reaping.deaths)))
    return reapings


def _sizes(mode: Hardcap) -> dict[int, int]:
    """Bytes of a segment, by its slots."""
    roomy = _apart(mode, "sizes")
    sizes = {}
    for slots in SIZES:
        name = f"bench-{slots:04}-slots"
        with replace(roomy, slots=slots).open(name, attach.LIMIT):
            sizes[slots] = segment_bytes(roomy, name)
    return sizes


def _nothing() -> bool:
    return True
