"""One page with pictures of everything: overload, recovery, modes, peers, overshoot and growth.

Written to a directory: ``index.html``, which needs no other file; each picture as SVG and as PNG; and the figures
behind them, ``report.json``. Exit status: 0 every command showed what it must; 1 one did not, and the page says which;
2 this cannot run here.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench import report_runs
from bench.report_runs import Chapter
from bench.results import Unusable, json_destination, require, write_json

NAME: Final = "report"
HELP: Final = "run the others and make one page and pictures of what they measure"
FIGURES: Final = "report.json"
PAGE: Final = "index.html"


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of ``python -m bench report``."""
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("build/report"), help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="the quick form of each: 3 minutes instead of 12")
    parser.add_argument("--figures", metavar="FILE", type=Path, help=f"draw those of an earlier {FIGURES} again")
    parser.add_argument("--smallest", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure, draw, write."""
    require(("matplotlib",))
    chapters = report_runs.read(args.figures) if args.figures else _measure(args)
    write(chapters, args.out)
    print(args.out / PAGE)
    return int(any(chapter.status for chapter in chapters.values()))


def write(chapters: Mapping[str, Chapter], directory: Path) -> None:
    """The figures, the pictures and the page."""
    from bench import report_page, report_pictures  # what they import is not installed everywhere

    write_json(_destination(directory), {name: chapter.as_json() for name, chapter in chapters.items()})
    for picture in report_pictures.PICTURES:
        chapter = chapters[picture.chapter]
        picture.save(directory, chapter.results, chapter.command)
    (directory / PAGE).write_text(report_page.page(chapters, directory), encoding="utf-8")


def _measure(args: argparse.Namespace) -> dict[str, Chapter]:
    _destination(args.out)  # asked before minutes of work
    return report_runs.measure(["--quick"] if args.quick or args.smallest else [], args.smallest)


def _destination(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"cannot write to {str(directory)!r}: {error.strerror}") from error
    return json_destination(str(directory / FIGURES))
