"""``hardcap verify`` and ``metrics``: what a segment says, judged or for a scraper."""

from __future__ import annotations

import argparse
import sys

import hardcap


def verify(args: argparse.Namespace) -> int:
    """Each invariant that is broken, a line each; 1 if there is one."""
    findings = hardcap.verify(args.name, args.dir)
    for finding in findings:
        print(finding)
    if not findings:
        print(f"{args.name}: every invariant holds")
    return 1 if findings else 0


def metrics(args: argparse.Namespace) -> int:
    """In the text format of Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest

        from hardcap.prometheus import HardcapCollector
    except ImportError as error:
        print(f"hardcap: {error}; install the extra 'prometheus' of hardcap-admission", file=sys.stderr)
        return 1
    hardcap.inspect(args.name, args.dir)  # else what is wrong with it would be an empty answer
    registry = CollectorRegistry()
    registry.register(HardcapCollector(args.name, directory=args.dir))
    sys.stdout.write(generate_latest(registry).decode())
    return 0
