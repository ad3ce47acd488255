"""The page of the report: one file that needs no other, pictures and figures in it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final

from bench import machine
from bench.report_pictures import PICTURES, Picture
from bench.report_runs import Chapter
from bench.report_tables import TABLES, Cell

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
img { width: 100%; height: auto }
table { border-collapse: collapse; font-size: 14px; margin: .5rem 0 }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; border-bottom: 1px solid #eee }
td { font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left }
pre { font-size: 12px; line-height: 1.3; overflow-x: auto }
h2 { margin-top: 3rem }
.source, summary { color: #666; font-size: 13px }
.missed { color: #b00020; font-weight: bold }
"""


def page(chapters: Mapping[str, Chapter], pictures: Path) -> str:
    """All of it, with the pictures as they stand in that directory."""
    return "\n".join(_page(chapters, pictures))


def _page(chapters: Mapping[str, Chapter], pictures: Path) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>hardcap, measured</title>'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>hardcap, measured</h1>"
    for name, chapter in chapters.items():
        if chapter.status:
            yield f'<p class="missed">{name}: not all that was promised was seen, exit status {chapter.status}</p>'
    for picture in PICTURES:
        yield from _section(picture, chapters[picture.chapter], pictures)
    yield "<h2>As printed</h2>"
    for chapter in chapters.values():
        yield f"<details><summary>{escape(chapter.command)}</summary>\n<pre>{escape(chapter.printed)}</pre></details>"
    yield "</body>\n</html>\n"


def _section(picture: Picture, chapter: Chapter, pictures: Path) -> Iterator[str]:
    yield f'<section id="{picture.name}">\n<h2>{escape(picture.title)}</h2>'
    image = base64.b64encode((pictures / f"{picture.name}.svg").read_bytes()).decode()
    yield f'<img alt="{escape(picture.title)}" src="data:image/svg+xml;base64,{image}">'
    yield f"<details><summary>the figures</summary>\n<table>{''.join(_rows(picture, chapter))}</table></details>"
    source = f"{machine.line(chapter.results['machine'])}<br>{escape(chapter.command)}"
    yield f'<p class="source">{source}</p>\n</section>'


def _rows(picture: Picture, chapter: Chapter) -> Iterator[str]:
    headings, *rows = TABLES[picture.name](chapter.results)
    yield f"<tr>{''.join(f'<th>{escape(str(heading))}</th>' for heading in headings)}</tr>\n"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>\n"


def _cell(cell: Cell) -> str:
    """A figure keeps its full value beside what is shown of it."""
    if isinstance(cell, str):
        return escape(cell)
    value, shown = cell
    return "-" if value is None else f'<data value="{value!r}">{escape(shown(value))}</data>'
