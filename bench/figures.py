"""What was measured of one subject with one number of processes, and what follows from it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median
from typing import Final, overload

from bench.baselines import Subject
from bench.percentiles import REPORTED, percentile
from bench.tasks import Latencies, Pace, Tally

BINS_PER_DECADE: Final = 12
NO_BURSTS: Final = Tally(0, 0)


class Ordered(Sequence[int]):
    """Counted values as the ascending sequence they stand for, without writing it out."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self._values = sorted(counts)
        self._up_to = list(accumulate(counts[value] for value in self._values))

    def __len__(self) -> int:
        return self._up_to[-1] if self._up_to else 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._values[bisect_right(self._up_to, range(len(self))[index])]


def percentiles(counts: Mapping[int, int]) -> dict[str, float]:
    """Median, p90, p99 and p99.9 of the counted durations; nothing of nothing."""
    ordered = Ordered(counts)
    return {name: percentile(ordered, fraction) for name, fraction in REPORTED.items() if ordered}


def distribution(counts: Mapping[int, int]) -> list[tuple[float, int]]:
    """How many durations fall into each bin: its lower edge in nanoseconds, and their number; empty bins too."""
    bins: Counter[int] = Counter()
    for value, count in counts.items():
        bins[math.floor(math.log10(max(value, 1)) * BINS_PER_DECADE)] += count
    return [(10 ** (bin / BINS_PER_DECADE), bins[bin]) for bin in range(min(bins), max(bins) + 1)] if bins else []


@dataclass
class Figures:
    """Every figure of every process: durations are counted together, a round of the tight loop is one sample."""

    subject: Subject
    processes: int
    limit: int
    pair_ns: list[float] = field(default_factory=list)
    pairs_per_second: list[float] = field(default_factory=list)
    reserve: Counter[int] = field(default_factory=Counter)
    release: Counter[int] = field(default_factory=Counter)
    timer: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    bursts: Tally = NO_BURSTS
    peak: int = 0

    def add_paces(self, paces: Sequence[Pace]) -> None:
        """One round of the tight loop, in all processes."""
        # A refused try costs time too, and where nobody is let in there is no pair to put it on.
        tries = sum(pace.pairs + pace.refused for pace in paces)
        elapsed = max(pace.ended_ns for pace in paces) - min(pace.began_ns for pace in paces)
        self.pair_ns.append(sum(pace.cpu_ns for pace in paces) / tries)
        self.pairs_per_second.append(sum(pace.pairs for pace in paces) / elapsed * 1e9)
        self.refused += sum(pace.refused for pace in paces)

    def add_latencies(self, latencies: Iterable[Latencies]) -> None:
        """One round of timed calls, in all processes."""
        for timed in latencies:
            self.reserve.update(timed.reserve)
            self.release.update(timed.release)
            self.timer.update(timed.timer)
            self.refused += timed.refused

    def add_bursts(self, tallies: Sequence[Tally], peak: int) -> None:
        """The bursts at the limit, with the most holders that the witness saw."""
        self.bursts = Tally(sum(tally.admitted for tally in tallies), sum(tally.refused for tally in tallies))
        self.peak = peak

    @property
    def bound(self) -> int | None:
        """The most holders this subject promises."""
        return self.subject.bound(self.limit, self.processes)

    @property
    def kept(self) -> bool:
        """Whether the promise, if there is one, held before the witness."""
        return self.bound is None or self.peak <= self.bound

    def ratio(self, baseline: Figures) -> float:
        """Its pair against the baseline's: the median over rounds, each against the same round."""
        return median(own / other for own, other in zip(self.pair_ns, baseline.pair_ns, strict=True))

    def as_json(self) -> dict[str, object]:
        """Durations in nanoseconds; ``refused`` in the timed runs, which leave room for everybody."""
        return {
            "name": self.subject.name,
            "processes": self.processes,
            "pair_ns": median(self.pair_ns),
            "pairs_per_second": median(self.pairs_per_second),
            "reserve_ns": percentiles(self.reserve),
            "release_ns": percentiles(self.release),
            "reserve_distribution": distribution(self.reserve),
            "samples": self.reserve.total(),
            "refused": self.refused,
            "limit": self.limit,
            "bursts": self.bursts._asdict(),
            "peak_holders": self.peak,
            "bound": self.bound,
            "kept": self.kept,
        }
