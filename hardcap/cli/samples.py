"""What stands under a directory, read again and again, and what happened in between. Nobody is attached to."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import hardcap
from hardcap.config import Config
from hardcap.directory import Directory
from hardcap.snapshot import ProcessSnapshot, Snapshot

DEPTH: Final = 60  # samples that a history keeps


@dataclass(frozen=True, slots=True)
class Sample:
    """One segment at one moment, with what happened since the sample before, in calls a second."""

    snapshot: Snapshot
    at: float
    admitted: float = 0.0
    rejected: Mapping[str, float] = field(default_factory=dict)
    rejected_by: Mapping[int, float] = field(default_factory=dict)  # by slot

    def since(self, before: Sample | None) -> Sample:
        """The same with the rates since ``before``; all 0 where there is none, or the segment was built anew."""
        if before is None or self.at <= before.at or _started_afresh(before.snapshot, self.snapshot):
            return self
        now, then, seconds = self.snapshot.totals, before.snapshot.totals, self.at - before.at
        rejected = {name: (count - then.rejected.get(name, 0)) / seconds for name, count in now.rejected.items()}
        known = {_owner(process): process.rejected for process in before.snapshot.processes}
        by = {
            process.slot: (process.rejected - known.get(_owner(process), 0)) / seconds
            for process in self.snapshot.processes
        }
        return Sample(self.snapshot, self.at, (now.admitted - then.admitted) / seconds, rejected, by)


def _owner(process: ProcessSnapshot) -> tuple[int, int, float]:
    return process.slot, process.pid, process.started_at


def _started_afresh(before: Snapshot, now: Snapshot) -> bool:
    return now.totals.admitted < before.totals.admitted or now.totals.rejected.keys() != before.totals.rejected.keys()


@dataclass(frozen=True, slots=True)
class Round:
    """All segments of a directory that were asked for, at one moment; of those that could not be read, why."""

    directory: str
    samples: Mapping[str, Sample]
    failures: Mapping[str, str]


class Watch:
    """The segments of a directory, or one of them, sampled in rounds, with a short history."""

    def __init__(self, directory: str | None, name: str | None) -> None:
        self.directory = Directory(directory).path
        self._name = name
        self.history: dict[str, list[Sample]] = {}

    def look(self) -> Round:
        """Read every segment now. One asked for by name that is not there raises ``SegmentError``."""
        samples: dict[str, Sample] = {}
        failures: dict[str, str] = {}
        for name in names(self.directory) if self._name is None else [self._name]:
            try:
                samples[name] = self._sample(name)
            except hardcap.SegmentError as error:
                if self._name is not None:
                    raise
                failures[name] = str(error)
        self._remember(samples)
        return Round(self.directory, samples, failures)

    def _sample(self, name: str) -> Sample:
        snapshot, before = hardcap.inspect(name, self.directory), self.history.get(name, [None])[-1]
        return Sample(snapshot, time.monotonic()).since(before)

    def _remember(self, samples: Mapping[str, Sample]) -> None:
        self.history = {name: [*self.history.get(name, []), one][-DEPTH:] for name, one in samples.items()}


def names(directory: str | None) -> list[str]:
    """What may be a segment in ``directory``, sorted. Empty where nothing is at all."""
    try:
        with Directory(directory).opened() as descriptor:
            return sorted(entry for entry in os.listdir(descriptor) if _is_name(entry))
    except hardcap.SegmentError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise


def _is_name(entry: str) -> bool:
    try:
        Config(entry)
    except hardcap.ConfigError:
        return False
    return True
