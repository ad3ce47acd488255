"""``hardcap set-limit``, ``reap`` and ``unlink``: they attend while they change a segment, without a slot."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import hardcap
from hardcap.attending import attending
from hardcap.backend import choose
from hardcap.errors import ConfigError
from hardcap.settings import SETTINGS, check_limits


def set_limit(args: argparse.Namespace) -> int:
    """For all processes, at once. What was before is said, so that it can be undone."""
    with attending(args.name, args.dir, choose(None, args.name).words) as segment:
        limits = _read(args.limit, segment.resources)
        before = {resource.name: resource.limit for resource in hardcap.inspect(args.name, args.dir).resources}
        segment.set_limits(limits)
    for resource, limit in limits.items():
        print(f"{args.name}: limit of {resource} is {limit}, was {before[resource]}")
    return 0


def _read(given: Sequence[str], resources: Sequence[str]) -> Mapping[str, int]:
    setting = SETTINGS["limit"]
    value = setting.parse(",".join(given))
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in resources]
        if unknown:
            raise ConfigError("resource", unknown[0], f"one of {', '.join(resources)}")
        return check_limits("limit", value)
    return {resources[0]: setting.check("limit", value)}


def reap(args: argparse.Namespace) -> int:
    """Recover dead owners now."""
    with attending(args.name, args.dir, choose(None, args.name).words) as segment:
        owners = segment.reap()
    print(f"{args.name}: {owners} dead {'owner' if owners == 1 else 'owners'} recovered")
    return 0


def unlink(args: argparse.Namespace) -> int:
    """Remove the segment."""
    hardcap.unlink(args.name, args.dir, force=args.force)
    print(f"{args.name}: removed")
    return 0
