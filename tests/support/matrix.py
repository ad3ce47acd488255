"""Which servers the ASGI middleware is tested on, and which ways a request may end: the table in the README.

``python -m tests.support.matrix`` writes it there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.servers import Server, granian, gunicorn, hypercorn, uvicorn

Start = Callable[..., AbstractContextManager[Server]]


@dataclass(frozen=True)
class Setup:
    """A server, how it is started, and what it does by itself.

    ``denies``: what the client of a refused WebSocket sees, 503 where the server offers the denial response.
    ``replaces``: whether it starts another worker in the place of a killed one, and does not end.
    """

    start: Start
    options: tuple[str, ...]
    denies: int
    replaces: bool = True


SERVERS: Final = {
    "uvicorn, h11": Setup(uvicorn, ("--http", "h11", "--timeout-graceful-shutdown", "1"), 503),
    "uvicorn, httptools": Setup(uvicorn, ("--http", "httptools", "--timeout-graceful-shutdown", "1"), 503),
    "hypercorn": Setup(hypercorn, ("--graceful-timeout", "1"), 503, replaces=False),
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
BEGIN, END = "<!-- matrix: make matrix -->\n", "<!-- /matrix -->\n"


def table() -> str:
    """In Markdown: in each cell, whether every unit is back."""
    rows = [["how it ends", *SERVERS], ["---"] * (len(SERVERS) + 1)]
    for ending, text in ENDINGS.items():
        remark = REMARKS.get(ending, lambda server: "yes")
        rows.append([text, *map(remark, SERVERS.values())])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(readme: str) -> str:
    """The README with the table as it should be."""
    before, _, rest = readme.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def main() -> None:
    readme = Path(__file__).parents[2] / "README.md"
    readme.write_text(written(readme.read_text()))


if __name__ == "__main__":
    main()
