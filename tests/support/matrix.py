"""Which servers the ASGI middleware is tested on, and which ways a request may end: the table in the README.

``python -m tests.support.matrix PYTEST_ARGUMENT...`` runs the tests and writes there what has passed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.servers import Server, granian, gunicorn, hypercorn, uvicorn

Start = Callable[..., AbstractContextManager[Server]]


@dataclass(frozen=True)
class Setup:
    """A server, how it is started, and what it does by itself.

    ``denies``: what the client of a refused WebSocket sees, 503 where the server offers the denial response.
    ``replaces``: whether it starts another worker in the place of a killed one, and does not end.
    ``waits``: whether a worker that is told to go does so when its clients have left, and not before.
    """

    start: Start
    options: tuple[str, ...]
    denies: int
    replaces: bool = True
    waits: bool = False


SERVERS: Final = {
    "uvicorn, h11": Setup(uvicorn, ("--http", "h11", "--timeout-graceful-shutdown", "1"), 503),
    "uvicorn, httptools": Setup(uvicorn, ("--http", "httptools", "--timeout-graceful-shutdown", "1"), 503),
    # Since CPython 3.12 what it awaits of asyncio's server is also that all connections are closed.
    "hypercorn": Setup(hypercorn, ("--graceful-timeout", "1"), 503, replaces=False, waits=sys.version_info >= (3, 12)),
    "granian": Setup(
        granian, ("--workers-kill-timeout", "1", "--respawn-failed-workers", "--respawn-interval", "0.1"), 503
    ),
    "gunicorn, asgi": Setup(gunicorn, ("--worker-class", "asgi", "--graceful-timeout", "1"), 403),
    "gunicorn, uvicorn-worker": Setup(
        gunicorn, ("--worker-class", "uvicorn_worker.UvicornWorker", "--graceful-timeout", "1"), 503
    ),
}
ENDINGS: Final = {
    "answered": "answered whole",
    "streamed": "streamed to the end",
    "refused": "refused: GET, HEAD, a body unread",
    "failed": "the application raises, before the response and within it",
    "left_before": "the client leaves before the response",
    "left_during": "the client leaves during the response",
    "left_after": "the client leaves after the response",
    "left_waiting": "the client leaves while it waits for admission",
    "websocket": "a counted WebSocket, closed; the next one refused",
    "killed": "the worker is killed",
    "reloaded": "the workers are replaced (SIGHUP)",
    "shut_down": "the server is shut down (SIGTERM)",
}
REMARKS: Final[dict[str, Callable[[Setup], str]]] = {
    "websocket": lambda server: f"yes, by {server.denies}",
    "killed": lambda server: "yes" if server.replaces else "yes; the server ends",
}
EVERY: Final = {(ending, server) for ending in ENDINGS for server in SERVERS}
CELL: Final = "cell of the matrix"  # the property that a test records: which one is its own
BEGIN, END = "<!-- matrix: make matrix -->\n", "<!-- /matrix -->\n"

README: Final = Path(__file__).parents[2] / "README.md"
TESTS: Final = "tests/servers/test_asgi_matrix.py"


class Passed:
    """A plugin of pytest: the cells whose tests have passed."""

    def __init__(self) -> None:
        self.cells: set[tuple[str, str]] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.cells |= {tuple(cell) for name, cell in report.user_properties if name == CELL}  # type: ignore[misc, arg-type]


def table(passed: Collection[tuple[str, str]]) -> str:
    """In Markdown: in each cell, whether every unit is back."""
    rows = [["how it ends", *SERVERS], ["---"] * (len(SERVERS) + 1)]
    for ending, text in ENDINGS.items():
        cells = [_cell(ending, tested) if (ending, name) in passed else "no" for name, tested in SERVERS.items()]
        rows.append([text, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(ending: str, tested: Setup) -> str:
    remark = REMARKS.get(ending)
    return remark(tested) if remark else "yes"


def written(readme: str, passed: Collection[tuple[str, str]]) -> str:
    """The README with the table as it should be."""
    before, _, rest = readme.partition(BEGIN)
    return before + BEGIN + table(passed) + END + rest.partition(END)[2]


def main() -> int:
    """Whatever has passed is written, unless the run was broken off."""
    passed = Passed()
    status = pytest.main([*sys.argv[1:], TESTS], plugins=[passed])
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        README.write_text(written(README.read_text(), passed.cells))
    return status


if __name__ == "__main__":
    sys.exit(main())
