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
        from hardcap.prometheus import exposition
    except ImportError as error:
        print(f"hardcap: {error}; install the extra 'prometheus' of hardcap-admission", file=sys.stderr)
        return 1
    sys.stdout.write(exposition(args.name, args.dir))
    return 0
