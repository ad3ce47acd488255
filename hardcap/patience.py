"""A request that waits for admission, while its client may leave.

Who leaves is seen by reading ``receive``. What is read there and is no disconnect is the application's: it is kept, and
a read that is under way is never cancelled, since a server may lose a message by that, but handed on as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from hardcap.messages import DISCONNECTS, Message, Receive
from hardcap.permit import Permit
from hardcap.refusal import Refusal

_KEPT_BYTES: Final = 65536  # of a body: beyond that the client's leaving is not seen until the application reads


class Inbox:
    """``receive`` of one request, read ahead as long as it waits."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: deque[Message] = deque()
        self._room = _KEPT_BYTES
        self._reading: asyncio.Task[Message] | None = None

    async def receive(self) -> Message:
        """For the application: what was read while the request waited comes first."""
        if self._kept:
            return self._kept.popleft()
        while (reading := self._reading) is not None:
            await asyncio.wait({reading})
            if self._reading is reading:
                self._reading = None
                return reading.result()
        return await self._receive()

    async def stays_until(self, done: asyncio.Task[Any]) -> bool:
        """Whether the client is still there when a task is done; if it leaves, at once.

        Nothing is read for a task that is done as soon as it has begun, which it does before we go on.
        """
        await asyncio.sleep(0)
        while not done.done():
            if self._reading is None and self._room > 0:
                self._reading = asyncio.ensure_future(self._receive())
            await asyncio.wait({done, self._reading or done}, return_when=asyncio.FIRST_COMPLETED)
            if self._reading is not None and self._reading.done() and self._keep(self._reading.result()):
                return False
        return True

    def _keep(self, message: Message) -> bool:
        """Keep it for the application. Whether it is the end of the client's part."""
        self._reading = None
        self._kept.append(message)
        self._room -= len(message.get("body", b"")) + 1
        return message["type"] in DISCONNECTS

    def close(self) -> None:
        """The request has ended: nobody will read any more."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading.add_done_callback(_hear_out)


async def unless_left(asking: Coroutine[Any, Any, Permit | Refusal], inbox: Inbox) -> Permit | Refusal | None:
    """What came of asking; ``None`` if the client left first. Then, and whatever is raised here, nothing is held."""
    asked = asyncio.create_task(asking)
    taken = False
    try:
        taken = await inbox.stays_until(asked)
        return asked.result() if taken else None
    finally:
        if not taken:
            _abandon(asked)


def _abandon(asked: asyncio.Task[Permit | Refusal]) -> None:
    if asked.done():
        _let_go(asked)
    else:
        asked.cancel()
        asked.add_done_callback(_let_go)


def _let_go(asked: asyncio.Task[Permit | Refusal]) -> None:
    if _hear_out(asked) and isinstance(permit := asked.result(), Permit):
        permit.release()


def _hear_out(task: asyncio.Task[Any]) -> bool:
    """Whether it has a result. An error that nobody waits for is not reported as one that was never retrieved."""
    return not task.cancelled() and task.exception() is None
