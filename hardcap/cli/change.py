"""``hardcap set-limit``, ``reap`` and ``unlink``: they attend while they change a segment, without a slot."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable, Mapping, Sequence

import hardcap
from hardcap.backend import choose
from hardcap.directory import Directory
from hardcap.operating import Attended, operating
from hardcap.settings import SETTINGS


def set_limit(args: argparse.Namespace) -> int:
    """For all processes, at once. What was before is said, so that it can be undone."""
    with _operating(args) as segment:
        limits = _read(args.limit, segment.limits)
        before = segment.limits
        segment.set_limits(limits)
    for resource, limit in limits.items():
        print(f"{args.name}: limit of {resource} is {limit}, was {before[resource]}")
    return 0


def _operating(args: argparse.Namespace) -> contextlib.AbstractContextManager[Attended]:
    path = Directory.of_operator(args.dir).file(args.name)
    return operating(args.name, args.dir, choose(None, path).words)


def _read(given: Sequence[str], resources: Iterable[str]) -> Mapping[str, int]:
    setting = SETTINGS["limit"]
    value = setting.parse(",".join(given))
    return value if isinstance(value, Mapping) else {next(iter(resources)): setting.check("limit", value)}


def reap(args: argparse.Namespace) -> int:
    """Recover dead owners now."""
    with _operating(args) as segment:
        owners = segment.reap()
    print(f"{args.name}: {owners} dead {'owner' if owners == 1 else 'owners'} recovered")
    return 0


def unlink(args: argparse.Namespace) -> int:
    """Remove the segment."""
    hardcap.unlink(args.name, args.dir, force=args.force)
    print(f"{args.name}: removed")
    return 0
