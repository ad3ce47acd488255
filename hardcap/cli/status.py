"""``hardcap status``: all segments in one table, or one of them in detail."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import Any

from rich.console import Console

from hardcap.cli import tables
from hardcap.cli.samples import Round, Sample, Watch


def run(args: argparse.Namespace, console: Console) -> int:
    """Read twice, ``--interval`` seconds apart, for the rates. 1 if a segment could not be read."""
    watch = Watch(args.dir, args.name)
    found = watch.look()
    if args.interval > 0:
        time.sleep(args.interval)
        found = watch.look()
    if args.json:
        print(json.dumps(as_json(found, one=args.name is not None), indent=2))
    else:
        show(found, console, one=args.name is not None)
    return 1 if found.failures else 0


def show(found: Round, console: Console, *, one: bool) -> None:
    """Print it; what could not be read is said on stderr, a line each."""
    if one:
        console.print(tables.detail(*found.samples.values()))
    elif found.samples:
        console.print(tables.overview(found.samples.values()))
    elif not found.failures:
        console.print(tables.nothing(found.directory), soft_wrap=True)
    for failure in found.failures.values():
        print(f"hardcap: {failure}", file=sys.stderr)


def as_json(found: Round, *, one: bool) -> object:
    """One segment's object, or a list of all."""
    shown = [_object(sample) for sample in found.samples.values()]
    return shown[0] if one else shown


def _object(sample: Sample) -> dict[str, Any]:
    rates = {"admitted": sample.admitted, "rejected": dict(sample.rejected)}
    return {**dataclasses.asdict(sample.snapshot), "per_second": rates}
