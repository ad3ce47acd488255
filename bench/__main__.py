"""``python -m bench COMMAND``: each command is one module of this package.

A command's module gives ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> int``, the exit status.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from bench.results import Unusable

COMMANDS = ("overload", "modes", "peers", "growth", "waiting", "http", "suggest")


def main(argv: Sequence[str]) -> int:
    """Run one command: 0 it showed what it must, 1 it did not, 2 it cannot run here, 130 interrupted."""
    args = _parser(argv).parse_args(argv)
    # Ended from outside is ended by hand: everything that was started is cleaned up on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status: int = args.run(args)
    except Unusable as reason:
        print(f"bench {args.command}: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"bench {args.command}: interrupted", file=sys.stderr)
        return 130
    return status


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of hardcap.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in [name for name in COMMANDS if name in argv[:1]] or COMMANDS:  # the others need not be imported
        module = importlib.import_module(f"bench.{name}")
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.__doc__)
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
