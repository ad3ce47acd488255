"""The exported figures, by Prometheus and by OpenTelemetry: the same numbers, whatever becomes of the segment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import hardcap
from hardcap.opentelemetry import observe
from hardcap.prometheus import HardcapCollector
from tests.conftest import Spawn
from tests.support.processes import eventually

Values = dict[tuple[str, ...], float]  # by figure and labels' values
Scrape = Callable[..., Values]

FAMILIES = {
    "hardcap_in_flight": "gauge",
    "hardcap_limit": "gauge",
    "hardcap_admitted": "counter",
    "hardcap_rejected": "counter",
    "hardcap_recovered_processes": "counter",
    "hardcap_processes": "gauge",
}


def registry(*arguments: Any) -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=True)
    made.register(HardcapCollector(*arguments))
    return made


def by_prometheus(*arguments: Any) -> Values:
    text = generate_latest(registry(*arguments)).decode()
    samples = [sample for family in parse(text) for sample in family.samples]
    return {(_plain(sample.name), *_values(sample.labels)): sample.value for sample in samples}


def by_opentelemetry(*arguments: Any) -> Values:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    observe(*arguments, meter_provider=provider)
    data: Any = reader.get_metrics_data()
    provider.shutdown()
    metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
    points = [(metric.name, point) for metric in metrics for point in metric.data.data_points]
    return {(_plain(name), *_values(point.attributes)): point.value for name, point in points}


def _families(made: CollectorRegistry) -> dict[str, str]:
    """The types of the families, by the newer format, whose parser is strict."""
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    families: Any = parse_openmetrics(encode(made).decode())  # type: ignore[no-untyped-call]
    return {family.name: family.type for family in families}


def _plain(name: str) -> str:
    return name.replace(".", "_").removeprefix("hardcap_").removesuffix("_total")


def _values(labels: Any) -> tuple[str, ...]:
    assert set(labels) <= {"name", "resource"}
    return tuple(labels[label] for label in ("name", "resource") if label in labels)


@pytest.fixture(params=[by_prometheus, by_opentelemetry])
def scrape(request: pytest.FixtureRequest) -> Scrape:
    made: Scrape = request.param
    return made


@pytest.fixture(params=["limiter", "name"])
def of(request: pytest.FixtureRequest) -> Callable[[hardcap.Limiter], tuple[Any, ...]]:
    """What to give to a collector for a limiter: itself, or where it is."""
    if request.param == "limiter":
        return lambda limiter: (limiter,)
    return lambda limiter: (limiter.name, limiter._connection.place.path)


def test_every_figure(segment_dir: Path, name: str, mode: str, backend: str, scrape: Scrape, of: Any) -> None:
    """Units of each resource; calls, refused by the one that refused."""
    limits = {"requests": 4, "tokens": 100}
    with hardcap.open(name, limits=limits, mode=mode, backend=backend, directory=segment_dir) as limiter:
        assert limiter.reserve(3, tokens=70)
        assert not limiter.reserve(2)
        assert not any(limiter.reserve(tokens=31) for _ in range(5))
        limiter.set_limit(tokens=60)
        assert scrape(*of(limiter)) == {
            ("in_flight", name, "requests"): 3,
            ("in_flight", name, "tokens"): 70,
            ("limit", name, "requests"): 4,
            ("limit", name, "tokens"): 60,
            ("admitted", name): 1,
            ("rejected", name, "requests"): 1,
            ("rejected", name, "tokens"): 5,
            ("recovered_processes", name): 0,
            ("processes", name): 1,
        }


def test_the_families_are_what_prometheus_wants(segment_dir: Path, name: str) -> None:
    """In the newer format too, whose parser is strict."""
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        made = registry(limiter)
        assert _families(made) == FAMILIES
        assert all(line.startswith(("#", "hardcap_")) for line in generate_latest(made).decode().splitlines())


def test_a_killed_process_holds_nothing_and_is_recovered_once(
    attached: Spawn, segment_dir: Path, name: str, mode: str, scrape: Scrape, of: Any
) -> None:
    """B43: without any traffic, and no total goes back."""
    child = attached(limit=3, mode=mode)
    child.run("limiter.reserve(2)")
    with hardcap.open(name, directory=segment_dir) as limiter:
        assert limiter.reserve()
        before = scrape(*of(limiter))
        assert (before["in_flight", name, "requests"], before["processes", name]) == (3, 2)
        child.kill(reap=False)
        eventually(lambda: scrape(*of(limiter))["in_flight", name, "requests"] == 1, "the dead hold nothing")
        after = scrape(*of(limiter))
        assert (after["processes", name], after["admitted", name]) == (1, 2)
        assert limiter.reap() == 1
        assert scrape(*of(limiter)) == after | {("recovered_processes", name): 1}
        limiter.release()
        assert scrape(*of(limiter))["in_flight", name, "requests"] == 0


def test_what_is_not_there_has_no_samples_and_breaks_nothing(segment_dir: Path, name: str, scrape: Scrape) -> None:
    """A limiter that is closed, a name that nobody has opened, a file that is no segment, a missing directory."""
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        (segment_dir / "other").write_bytes(b"not ours")
        shown = scrape([limiter, f"{name}-absent", "other"], segment_dir)
        assert shown == scrape(limiter)
    assert scrape([limiter, f"{name}-absent"], segment_dir) == {}
    assert scrape(name, segment_dir / "absent") == {}
    with hardcap.open(name, limit=2, directory=segment_dir):
        assert scrape(name, segment_dir)["limit", name, "requests"] == 2


def test_several_caps_are_one_collector(segment_dir: Path, name: str, scrape: Scrape) -> None:
    """Two collectors on one registry would show each family twice, which Prometheus does not allow."""
    names = [f"{name}-a", f"{name}-b"]
    with (
        hardcap.open(names[0], limit=1, directory=segment_dir),
        hardcap.open(names[1], limit=2, directory=segment_dir) as second,
    ):
        shown = scrape([names[0], second], segment_dir)
        assert [shown["limit", each, "requests"] for each in names] == [1, 2]
        made = registry(names[0], segment_dir)
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            made.register(HardcapCollector(second))


@pytest.mark.parametrize("wrong", ['a"b', "a\nb", "a\\b", "", "../a"])
def test_b43_no_label_needs_escaping(wrong: str) -> None:
    """Since none that would is a name: that is an error when the collector is made, not at the scrape."""
    with pytest.raises(hardcap.ConfigError, match="name is"):
        HardcapCollector(wrong)
    with pytest.raises(hardcap.ConfigError, match="name is"):
        observe(wrong)


def test_a_name_is_read_without_attaching(segment_dir: Path, name: str) -> None:
    with hardcap.open(name, limit=1, max_processes=1, directory=segment_dir) as limiter:
        before = os.listdir("/proc/self/fd")
        assert by_prometheus(name, segment_dir)["processes", name] == 1
        assert os.listdir("/proc/self/fd") == before
        assert len(limiter.snapshot().processes) == 1
