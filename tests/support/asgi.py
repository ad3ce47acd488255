"""Drive an ASGI application by hand: one exchange at a time, in an event loop or step by step."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator, Mapping, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]}
LAST: Message = {"type": "http.response.body", "body": b"end"}

# Never counted, unless a configuration says otherwise; to both middlewares.
DEFAULT_EXEMPT = ["/health", "/healthz", "/livez", "/readyz", "/metrics"]


class Exchange:
    """One request and what was sent for it. The client sends no body and stays."""

    def __init__(self, path: str = "/", method: str = "GET", **scope: Any) -> None:
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 12345),
            **scope,
        }
        self.received = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        self.received += 1
        if self.received > 1:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        self.sent.append(dict(message))

    async def run(self, app: Any) -> Exchange:
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


class Gated(Exchange):
    """An exchange whose server takes no body message until ``gate`` is opened."""

    def __init__(self, path: str = "/", **scope: Any) -> None:
        super().__init__(path, **scope)
        self.waiting, self.gate = asyncio.Event(), asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] != "http.response.start":
            self.waiting.set()
            await self.gate.wait()
        await super().send(message)


def sends(*messages: Message) -> Any:
    """An application that sends these messages."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(dict(message))

    return app


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers requests, and nothing else."""
    if scope["type"] == "http":
        await sends(START, LAST)(scope, receive, send)


async def never(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("the application must not be called")


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Suspend once: a point at which `step` may throw."""
    yield


def step(coroutine: Coroutine[Any, Any, Any], throws: Mapping[int, BaseException] | None = None) -> int:
    """Run a coroutine to its end without a loop, throwing at the suspensions named. How many there were."""
    suspensions = 0
    try:
        coroutine.send(None)
        while True:
            suspensions += 1
            error = (throws or {}).get(suspensions)
            if error is None:
                coroutine.send(None)
            else:
                coroutine.throw(error)
    except StopIteration:
        return suspensions


class Arriving(Exchange):
    """An exchange whose client's messages arrive one by one, when the test says so."""

    def __init__(self, path: str = "/", **scope: Any) -> None:
        super().__init__(path, **scope)
        self._messages: asyncio.Queue[Message] = asyncio.Queue()

    async def receive(self) -> Message:
        self.received += 1
        return await self._messages.get()

    def arrives(self, body: bytes, *, more: bool = False) -> None:
        self._messages.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leaves(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})
