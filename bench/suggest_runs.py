"""Rising concurrency on one service, in several passes, each with a closer look at the knee that there seems to be."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import loops, machine, stage
from bench.knee import Step, Verdict, judge, knee
from bench.machine import Machine
from bench.percentiles import summary
from bench.rounds import Step as Tell
from bench.spans import Span, steps
from bench.steady import Answer, Question, Steady
from bench.target import Target

PASSES: Final = 3
CLOSER: Final = 5  # levels at most, at the knee and below
SETTLING: Final = 0.25  # of a level's time, not measured
FEWEST: Final = 4  # answers in a level
TOLERATED: Final = 0.03  # failures among the answers


@dataclass(frozen=True)
class Suggestion:
    """All steps that were measured, one that went wrong included, and what they say."""

    machine: Machine
    url: str
    steps: Sequence[Step]
    verdict: Verdict

    @property
    def sound(self) -> bool:
        """Whether a limit is proposed."""
        return self.verdict.limit is not None

    def as_json(self) -> dict[str, object]:
        """Throughput per second, durations in milliseconds, shares of 1."""
        rows = [_row(step) for step in self.steps]
        return {"machine": self.machine, "url": self.url, "steps": rows, "verdict": self.verdict.as_json()}


def coarse(most: int) -> list[int]:
    """Powers of two below ``most``, and ``most``."""
    return [2**exponent for exponent in range((most - 1).bit_length())] + [most]


def below(level: int, measured: Sequence[int]) -> list[int]:
    """The level and a few less, down to the one measured below it: among them is the least that does as well."""
    low = max((other for other in measured if other < level), default=level)
    stride = (level - low) / (CLOSER - 1)
    return sorted({low + round(stride * number) for number in range(CLOSER)})


def measure(target: Target, question: Question, most: int, seconds: float) -> Suggestion:
    """``seconds`` of load, at most ``most`` in flight. ``Unusable`` if nobody answers."""
    rise = Rise(coarse(most), seconds)
    with stage.progress(rise.holds) as tell:
        loops.run(rise.measure(target, question, tell))
    found = steps(rise.spans, rise.answers)
    good = [step for step in found if not rise.stopped or step.in_flight < rise.spans[-1].in_flight]
    return Suggestion(machine.describe("none"), str(target.url), found, judge(good, rise.stopped))


class Rise:
    """One measurement: what was in flight when, every answer, and why it ended before its time, if it did."""

    def __init__(self, levels: Sequence[int], seconds: float) -> None:
        self.spans: list[Span] = []
        self.answers: Sequence[Answer] = []
        self.stopped = ""
        self.holds = PASSES * len(levels) + (PASSES - 1) * min(CLOSER, levels[-1] - len(levels))
        self._levels = levels
        self._seconds = seconds / self.holds

    async def measure(self, target: Target, question: Question, tell: Tell) -> None:
        """All passes, or as far as all goes well."""
        async with Steady(target, question) as load:
            self.answers = load.answers
            await load.reach()
            await self._pass(load, self._levels, tell)
            for _ in range(PASSES - 1):
                if not self.stopped:
                    await self._pass(load, self._closer(), tell)

    def _closer(self) -> list[int]:
        found = {step.in_flight: step.throughput for step in steps(self.spans, self.answers)}
        return sorted({*self._levels, *below(knee(found), list(found))})

    async def _pass(self, load: Steady, levels: Sequence[int], tell: Tell) -> None:
        for level in levels:
            tell(f"{level} in flight")
            span = await self._hold(load, level)
            self.spans.append(span)
            self.stopped = _trouble(span, span.came(load.answers))
            if self.stopped:
                return

    async def _hold(self, load: Steady, level: int) -> Span:
        load.resize(level)
        await asyncio.sleep(SETTLING * self._seconds)
        since, used = time.perf_counter(), time.process_time()
        await asyncio.sleep((1 - SETTLING) * self._seconds)
        until = time.perf_counter()
        return Span(level, since, until, (time.process_time() - used) / (until - since))


def _trouble(span: Span, came: Sequence[Answer]) -> str:
    """Why not to go on: hardly any answer came, or more than a few failed."""
    level = f"with {span.in_flight} in flight"
    if len(came) < FEWEST:
        rate = f"{len(came)} {level} within {span.until - span.since:.1f} s"
        return f"not sure, too few answers: {rate}, expected {FEWEST}: give it more --seconds"
    failures = Counter(answer.failure for answer in came if answer.failure)
    share = f"{failures.total() / len(came):.0%} of the answers {level}"
    if failures.total() <= TOLERATED * len(came):
        return ""
    if sum(answer.refused for answer in came) > failures.total() / 2:
        return f"the service refuses {share}: it already has a limit; lift that to measure beyond it"
    return f"service errors: {share}, most of them: {failures.most_common(1)[0][0]}"


def _row(step: Step) -> dict[str, object]:
    times = summary(step.latencies) if step.latencies else {}
    return {
        "in_flight": step.in_flight,
        "throughput": step.throughput,
        **{f"{name}_ms": 1000 * seconds for name, seconds in times.items()},
        "served": len(step.latencies),
        "failed": step.failed,
        "driver": step.driver,
    }
