"""Drive a running service with rising concurrency, and propose a limit at the knee of its throughput.

The proposal is the fewest requests in flight that bring 95 % of the greatest throughput: more of them only wait. It
stops early when the service errs or refuses. Exit status: 0 a limit is proposed; 1 none can be; 2 this cannot run here.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import stage
from bench.results import Unusable, require

if TYPE_CHECKING:
    from bench.steady import Question

NAME: Final = "suggest"
HELP: Final = "on a running service of yours: which limit fits it"
NEEDS: Final = ("aiohttp", "uvloop", "yarl")
MOST: Final = 1024  # requests in flight
LONGEST: Final = 3600.0  # seconds


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench suggest``."""
    parser.add_argument("--url", required=True, help="what to ask for, on loopback")
    parser.add_argument("--post", metavar="FILE", help="POST what FILE holds, instead of GET")
    parser.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[], help="in each request")
    parser.add_argument("--seconds", type=float, default=30.0, help="of load altogether (default: 30)")
    parser.add_argument("--most", type=int, default=64, help="requests in flight at once (default: 64)")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for one request (default: 10)")
    parser.add_argument("--allow-remote", action="store_true", help="a URL elsewhere; ask whose service it is")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too")


def run(args: argparse.Namespace) -> int:
    """Measure; print it, and write JSON if asked. 0: a limit is proposed; 1: stderr says why none is."""
    require(NEEDS)
    from bench import suggest_report, suggest_runs, target  # what they import is not installed everywhere

    _check(args)
    found_at, question = target.look_up(args.url, args.allow_remote), _question(args)
    return stage.conclude(
        NAME, args, lambda: suggest_runs.measure(found_at, question, args.most, args.seconds), suggest_report.show
    )


def _check(args: argparse.Namespace) -> None:
    if not 2 <= args.most <= MOST:
        raise Unusable(f"most is {args.most}, allowed: 2 to {MOST}")
    for name in ("seconds", "timeout"):
        if not 0 < getattr(args, name) <= LONGEST:
            raise Unusable(f"{name} is {getattr(args, name):g}, allowed: more than 0, at most {LONGEST:g}")


def _question(args: argparse.Namespace) -> Question:
    from bench.steady import Question

    headers = {}
    for text in args.header:
        name, colon, value = text.partition(":")
        if not colon or not text.isprintable():
            raise Unusable(f"header is {text!r}, allowed: 'NAME: VALUE'")
        headers[name.strip()] = value.strip()
    try:
        body = Path(args.post).read_bytes() if args.post else None
    except OSError as error:
        raise Unusable(f"cannot read {args.post!r}: {error.strerror}") from error
    return Question(headers, body, args.timeout)
