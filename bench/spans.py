"""From single answers to the figures of a step: what came in a span of time, and how evenly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.knee import Step
from bench.steady import Answer

WINDOWS: Final = 4  # in a span


@dataclass(frozen=True)
class Span:
    """A time, in seconds of ``time.perf_counter``, in which so many were in flight all the time."""

    in_flight: int
    since: float
    until: float
    driver: float

    def came(self, answers: Iterable[Answer]) -> list[Answer]:
        """Those that came in this time."""
        return [answer for answer in answers if self.since <= answer.ended < self.until]

    def windows(self, answers: Iterable[Answer]) -> list[float]:
        """Throughputs per second. A request counts in each window by the share of its time that lies in it."""
        served = [
            answer
            for answer in answers
            if not answer.failure and answer.begun < self.until and answer.ended > self.since
        ]
        length = (self.until - self.since) / WINDOWS
        edges = [self.since + length * number for number in range(WINDOWS)]
        return [sum(_share(answer, edge, edge + length) for answer in served) / length for edge in edges]


def steps(spans: Iterable[Span], answers: Sequence[Answer]) -> list[Step]:
    """A step for each level of concurrency, ascending, of all spans that had it."""
    levels: dict[int, list[Span]] = {}
    for span in spans:
        levels.setdefault(span.in_flight, []).append(span)
    return [_step(level, levels[level], answers) for level in sorted(levels)]


def _step(level: int, spans: Sequence[Span], answers: Sequence[Answer]) -> Step:
    came = [answer for span in spans for answer in span.came(answers)]
    return Step(
        level,
        windows=[window for span in spans for window in span.windows(answers)],
        latencies=sorted(answer.latency for answer in came if not answer.failure),
        failed=sum(bool(answer.failure) for answer in came) / max(1, len(came)),
        driver=max(span.driver for span in spans),
    )


def _share(answer: Answer, since: float, until: float) -> float:
    inside = min(answer.ended, until) - max(answer.begun, since)
    return max(0.0, inside / answer.latency) if answer.latency else 0.0
