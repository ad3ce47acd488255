"""``python -m bench report``: built in one command, complete, and in need of nothing from elsewhere."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench.report_pictures import PICTURES
from bench.report_runs import SMALLEST, read
from bench.results import Unusable
from tests.process.test_bench_growth import check_growth
from tests.process.test_bench_modes import check_modes
from tests.process.test_bench_peers import check_peers
from tests.servers.test_overload import check_overload
from tests.support.commands import interrupted, run, started
from tests.support.forms import FULL
from tests.support.processes import DEADLINE

INLINE = "data:image/svg+xml;base64,"
OUTSIDE = re.compile(r"(?:https?:)?//|@import|url\(", re.IGNORECASE)
LINKING = base64.b64encode(b"<svg><image href='x.png'/></svg>").decode()
FETCHED = ("src", "href", "srcset", "action", "data", "poster")
NAMES = {picture.name for picture in PICTURES}
# Beside those of this module.
CHECKS = {"overload": check_overload, "modes": check_modes, "peers": check_peers, "growth": check_growth}
STRICTLY = {"PYTHONWARNINGS": "error"}  # the commands, and all that they start


class Page(HTMLParser):
    """What a browser would fetch, the figures with their full values, and the text of the sources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.styles: list[str] = []
        self.values: list[float] = []
        self.sources: list[str] = []
        self._where = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._where = given.get("class", tag)
        self.addresses += [given[name] for name in FETCHED if name in given]
        self.styles += [given["style"]] if "style" in given else []
        if tag == "data":
            self.values.append(float(given["value"]))

    def handle_data(self, data: str) -> None:
        if self._where == "style":
            self.styles.append(data)
        if self._where in ("source", "br"):
            self.sources.append(data)

    def outside(self) -> list[str]:
        """Everything that is not in the page itself, pictures in it included."""
        inline = [address.removeprefix(INLINE) for address in self.addresses if address.startswith(INLINE)]
        others = [address for address in self.addresses if not address.startswith((INLINE, "#"))]
        styles = [text for text in self.styles if OUTSIDE.search(text)]
        return [*others, *styles, *(link for text in inline for link in _links(base64.b64decode(text)))]


def _links(svg: bytes) -> list[str]:
    attributes = [pair for element in ET.fromstring(svg).iter() for pair in element.attrib.items()]
    return [value for name, value in attributes if name.endswith(("href", "src")) and not value.startswith("#")]


@pytest.mark.timeout(300)
def test_one_command_builds_all_of_it(tmp_path: Path) -> None:
    """One test for all of it, since that takes long: also that each of its commands gave whole figures."""
    out = tmp_path / "report"
    with started("bench", "report", "--smallest", "--out", str(out), env=STRICTLY) as process:
        printed, told = process.communicate(timeout=4 * DEADLINE)
    wait_for_orphans()
    assert process.returncode == 0, told
    assert printed == f"{out / 'index.html'}\n"
    lines = told.replace(" \n", " ").splitlines()  # where a long one was broken
    assert [line for line in lines if not line.startswith("overload: ")] == [
        f"{number} of 6: python -m bench {name} --quick {' '.join(SMALLEST[name])}"
        for number, name in enumerate(SMALLEST, 1)
    ]
    chapters = json.loads((out / "report.json").read_text())
    for name, check in CHECKS.items():
        check_printed(chapters[name]["printed"])
        check(chapters[name]["results"], chapters[name]["printed"])
    check_pictures(out)
    check_page((out / "index.html").read_text(), chapters)
    check_timelines(chapters)
    if FULL:
        check_drawn_again(out, tmp_path / "again")


def wait_for_orphans() -> None:
    """Helpers of its commands' commands, which end after them, are adopted by the test: see `leaks.adopt_orphans`."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def check_printed(text: str) -> None:
    assert max(len(line) for line in text.splitlines() if "commit" not in line) <= 100
    assert "…" not in text


def check_pictures(out: Path) -> None:
    wanted = {f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")}
    assert {path.name for path in out.iterdir()} == wanted | {"index.html", "report.json"}
    for name in NAMES:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        drawn = [element for element in ET.parse(out / f"{name}.svg").iter() if element.tag.endswith("}path")]
        assert len(drawn) > 50


def check_page(text: str, chapters: dict[str, Any]) -> None:
    page = Page(text)
    assert len(page.addresses) == len(NAMES)
    assert page.outside() == []
    measured = set(numbers(chapters))
    assert len(page.values) > 50
    assert [value for value in page.values if value not in measured] == []
    for chapter in chapters.values():
        assert chapter["command"] in page.sources
        assert any(chapter["results"]["machine"]["date"] in source for source in page.sources)


def check_timelines(chapters: dict[str, Any]) -> None:
    """What was looked at from time to time is never above the peak, which the witness saw at each request."""
    runs = chapters["overload"]["results"]["modes"] | chapters["recovery"]["results"]["runs"]
    for name, figures in runs.items():
        seconds, in_flight = zip(*figures["timeline"], strict=True)
        assert list(seconds) == sorted(seconds), name
        assert 0 < max(in_flight) <= figures["peak_in_flight"], name
    semaphore = chapters["recovery"]["results"]["runs"]["semaphore"]
    assert semaphore["back_after_seconds"] is None
    assert semaphore["peak_after_kill"] <= 10 - semaphore["held_by_killed"]


def check_drawn_again(out: Path, again: Path) -> None:
    done = run("bench", "report", "--figures", str(out / "report.json"), "--out", str(again))
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("index.html", "report.json", *(f"{name}.svg" for name in NAMES)):
        assert (again / name).read_bytes() == (out / name).read_bytes(), name


def numbers(results: Any) -> Iterator[float]:
    """Every number in it, at any depth."""
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, list):
        for result in results:
            yield from numbers(result)
    elif isinstance(results, int | float):
        yield float(results)


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org">',
        '<img src="//example.org/x.png">',
        '<link rel="stylesheet" href="style.css">',
        "<style>@import 'x.css'</style>",
        '<p style="background: url(x.png)">',
        f'<img src="{INLINE}{LINKING}">',
    ],
)
def test_a_link_to_elsewhere_would_be_seen(text: str) -> None:
    assert Page(text).outside()


def test_ended_by_a_signal_it_leaves_nothing(tmp_path: Path) -> None:
    with started("bench", "report", "--smallest", "--out", str(tmp_path)) as process:
        assert process.stderr
        told = [process.stderr.readline() for _ in range(2)]
        command = f"python -m bench overload --quick {' '.join(SMALLEST['overload'])}"
        assert told == [f"1 of 6: {command}\n", "overload: control\n"]
        status, _ = interrupted(process)
    wait_for_orphans()
    assert status == 130
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"overload": {"command": ""}}'])
def test_figures_that_are_none_are_told(tmp_path: Path, content: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(content)
    with pytest.raises(Unusable, match=f"^cannot read '{file}': "):
        read(file)


def test_figures_that_are_not_there_are_exit_status_2(tmp_path: Path) -> None:
    done = run("bench", "report", "--figures", str(tmp_path / "absent"), "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench report: cannot read '")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
