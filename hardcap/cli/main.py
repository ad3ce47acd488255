"""Arguments, errors on one line, and exit statuses: 0 done, 1 refused or a check failed, 2 usage."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NoReturn

from rich.console import Console

import hardcap
from hardcap.cli import change, fitness, look, samples, status, top
from hardcap.settings import SETTINGS


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    _replace_closed_streams()
    parser = _parser()
    _complete(parser)
    try:
        args = parser.parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except hardcap.HardcapError as error:
        print(f"hardcap: {error}", file=sys.stderr)
        return 2 if isinstance(error, hardcap.ConfigError) else 1
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            print(f"hardcap: {error}", file=sys.stderr)
        with contextlib.suppress(io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's last flush
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _replace_closed_streams() -> None:
    """What was started without stdout or stderr does its work all the same."""
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()


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
    parser = argparse.ArgumentParser(prog="hardcap", description="Look at segments and operate on them.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    status_ = _add(commands, "status", _on_console(status.run), "all segments in one table, or one of them in detail")
    top_ = _add(commands, "top", _on_console(top.run), "the same, live: q quits, p pauses, s sorts, r reverses")
    limit = _add(commands, "set-limit", change.set_limit, "change limits for all processes, at once")
    reap = _add(commands, "reap", change.reap, "recover what dead processes held, now")
    verify = _add(commands, "verify", look.verify, "say which invariants a segment breaks")
    unlink = _add(commands, "unlink", change.unlink, "remove a segment that nobody is attached to")
    metrics = _add(commands, "metrics", look.metrics, "in the text format of Prometheus")
    _add(commands, "check", _on_console(fitness.run), "is this machine fit for hardcap")

    for command in (status_, top_):
        _name(command, nargs="?")
        command.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two samples")
    for command in (limit, reap, verify, unlink, metrics):
        _name(command)
    status_.add_argument("--json", action="store_true", help="for programs")
    limit.add_argument("limit", nargs="+", metavar="N|RESOURCE=N", help="of the first resource, or by name; 0 drains")
    unlink.add_argument("--force", action="store_true", help="retire it under its users, who open a new one")
    return parser


class _Version(argparse.Action):
    """Looked up when asked for, not at each command."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> NoReturn:
        print(parser.prog, metadata.version("hardcap-admission"), flush=True)
        parser.exit()


def _add(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    where = "of the segments, by default $HARDCAP_DIR, or /dev/shm/hardcap-<uid>"
    default = os.environ.get("HARDCAP_DIR")
    command.add_argument("--dir", type=_directory, default=default, metavar="PATH", help=where)
    command.set_defaults(run=run)
    return command


def _name(command: argparse.ArgumentParser, nargs: str | None = None) -> None:
    argument = command.add_argument("name", nargs=nargs, metavar="NAME", help="of a segment")
    argument.completer = _names  # type: ignore[attr-defined]


def _on_console(run: Callable[[argparse.Namespace, Console], int]) -> Callable[[argparse.Namespace], int]:
    return lambda args: run(args, Console(highlight=False))


def _directory(text: str) -> str:
    try:
        return str(SETTINGS["directory"].check("it", text))
    except hardcap.ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not within 0 and 3600 seconds")
    return value
