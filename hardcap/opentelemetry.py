"""The same figures by way of the OpenTelemetry API, as observable instruments."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter

from hardcap.figures import FIGURES, Figure, Reader, Sources

__all__ = ["observe"]

_PREFIX: Final = "hardcap."


def observe(
    limiter_or_name: Sources,
    directory: str | os.PathLike[str] | None = None,
    *,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Register the instruments ``hardcap.in_flight``, ``hardcap.limit`` and so on; the global provider by default.

    ``limiter_or_name`` and what is shown are as for ``hardcap.prometheus.HardcapCollector``. Call it once for each
    provider, with all that is to be seen. Every process that exports gives the figures of all processes: aggregate
    over them by the maximum, never by the sum, or call it in one process only. Raises :class:`ConfigError` for what
    cannot be a segment's name.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> limiter = hardcap.open("web", limit=10)
    >>> provider = MeterProvider()  # with a reader that exports
    >>> observe(limiter, meter_provider=provider)
    """
    meter = get_meter("hardcap", meter_provider=meter_provider)
    reader = Reader(limiter_or_name, directory)
    for figure in FIGURES:
        _create(meter, figure)(
            _PREFIX + figure.name,
            [functools.partial(_observations, reader, figure)],
            unit=figure.unit,
            description=figure.text,
        )


def _create(meter: Meter, figure: Figure) -> Callable[..., object]:
    return meter.create_observable_counter if figure.is_total else meter.create_observable_gauge


def _observations(reader: Reader, figure: Figure, _options: CallbackOptions) -> Iterable[Observation]:
    for snapshot in reader.snapshots():
        for labels, value in figure.samples(snapshot):
            yield Observation(value, dict(zip(figure.labels, labels, strict=True)))
