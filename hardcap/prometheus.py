"""A collector for ``prometheus_client``: the figures of the segment, whichever worker is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hardcap import inspect
from hardcap.figures import FIGURES, Figure, Reader, Sources

__all__ = ["HardcapCollector", "exposition"]

_PREFIX: Final = "hardcap_"

Family = CounterMetricFamily | GaugeMetricFamily


class HardcapCollector(Collector):
    """Shows one cap, or several, on the ordinary registry or on the one made for each scrape in multiprocess mode.

    ``limiter_or_name`` is a limiter, the name of a segment in ``directory`` (as for ``hardcap.open``), or several of
    them: one registry takes one collector. Everything is read from the segment at each scrape, so any worker gives
    the figures of all, once, and without attaching where a name is given.

    A segment that is not there, or a limiter that is closed, has no samples, and breaks no scrape. Totals count
    calls; they never go back while the segment lives, whoever dies. They begin at 0 when it starts afresh because
    nobody was attached. Units of dead processes, which the next refusal recovers, are not in flight any more here.
    Raises :class:`ConfigError` for what cannot be a segment's name.

    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> registry.register(HardcapCollector(hardcap.open("web", limit=10)))
    >>> registry.get_sample_value("hardcap_limit", {"name": "web", "resource": "requests"})
    10
    """

    def __init__(self, limiter_or_name: Sources, directory: str | os.PathLike[str] | None = None) -> None:
        self._reader = Reader(limiter_or_name, directory)

    def describe(self) -> Iterator[Family]:
        """The families, without samples: registering reads nothing."""
        return map(_family, FIGURES)

    def collect(self) -> Iterator[Family]:
        """The families, read now."""
        snapshots = self._reader.snapshots()
        for figure in FIGURES:
            family = _family(figure)
            for snapshot in snapshots:
                for labels, value in figure.samples(snapshot):
                    family.add_metric(labels, value)
            yield family


def exposition(name: str, directory: str | os.PathLike[str] | None = None) -> str:
    """The text that a scrape of that one segment would get. Raises :class:`SegmentError` where there is none.

    >>> limiter = hardcap.open("web", limit=10)
    >>> print(exposition("web"))
    # HELP ...
    hardcap_limit{name="web",resource="requests"} 10.0
    ...
    """
    inspect(name, directory)  # else what is wrong would look like nothing to tell
    registry = CollectorRegistry()
    registry.register(HardcapCollector(name, directory))
    return generate_latest(registry).decode()


def _family(figure: Figure) -> Family:
    kind = CounterMetricFamily if figure.is_total else GaugeMetricFamily
    return kind(_PREFIX + figure.name, figure.text, labels=figure.labels)
