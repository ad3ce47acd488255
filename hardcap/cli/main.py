"""Arguments, errors on one line, and exit statuses: 0 done, 1 refused or a check failed, 2 usage."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from rich.console import Console

import hardcap
from hardcap.cli import change, fitness, look, samples, status, top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    parser = _parser()
    _complete(parser)
    args = parser.parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except hardcap.HardcapError as error:
        print(f"hardcap: {error}", file=sys.stderr)
        return 2 if isinstance(error, hardcap.ConfigError) else 1
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _complete(parser: argparse.ArgumentParser) -> None:
    """For a shell that asks what may follow, if argcomplete is installed."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def _names(parsed_args: argparse.Namespace, **_context: Any) -> list[str]:
    try:
        return samples.names(parsed_args.dir)
    except hardcap.HardcapError:
        return []


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--dir", metavar="PATH", help="the directory of segments, by default /dev/shm/hardcap-<uid>")
    parser = argparse.ArgumentParser(prog="hardcap", description="Look at segments and operate on them.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {metadata.version('hardcap-admission')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, names: str | None = None) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=text, description=text)
        if names is not None:
            made.add_argument("name", nargs=names or None, metavar="NAME", help="of a segment").completer = _names  # type: ignore[attr-defined]
        made.set_defaults(run=run)
        return made

    interval = {"type": _seconds, "default": 1.0, "metavar": "SECONDS", "help": "between two samples, 1 by default"}
    shown = command("status", _on_console(status.run), "all segments in one table, or one of them in detail", "?")
    shown.add_argument("--json", action="store_true", help="for programs")
    shown.add_argument("--interval", **interval)
    command("top", _on_console(top.run), "the same, live: q quits, p pauses, s sorts, r reverses", "?").add_argument(
        "--interval", **interval
    )
    limit = command("set-limit", change.set_limit, "change limits for all processes, at once", "")
    limit.add_argument("limit", nargs="+", metavar="N|RESOURCE=N", help="of the first resource, or by name; 0 drains")
    command("reap", change.reap, "recover what dead processes held, now", "")
    command("verify", look.verify, "say which invariants a segment breaks", "")
    removed = command("unlink", change.unlink, "remove a segment that nobody is attached to", "")
    removed.add_argument("--force", action="store_true", help="retire it under its users, who open a new one")
    command("metrics", look.metrics, "in the text format of Prometheus", "")
    command("check", _on_console(fitness.run), "is this machine fit for hardcap")
    return parser


def _on_console(run: Any) -> Any:
    return lambda args: run(args, Console(highlight=False))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not within 0 and 3600 seconds")
    return value
