"""The runs behind ``python -m bench recovery``: the same load and the same kill, behind hardcap and a semaphore."""

from __future__ import annotations

from bench import overload_runs
from bench.overload_runs import CLIENTS, LIMIT, WORKERS, Measured, Run
from bench.semaphores import named_semaphore

__all__ = ["CLIENTS", "LIMIT", "WORKERS", "measure"]


def measure(seconds: float) -> dict[str, Measured]:
    """Both runs by name, each with ``seconds`` of load. ``Unusable`` if no server can be had."""
    with named_semaphore(LIMIT) as name:
        runs = (
            Run("hardcap", "shared", "strict", kill=True),
            Run("semaphore", "semaphore", kill=True, patience=seconds / 4, environ={"OVERLOAD_SEMAPHORE": name}),
        )
        return overload_runs.measure_all(0, seconds, runs)
