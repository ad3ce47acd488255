"""Where a middleware's limiter comes from: given, or opened when first needed, and again when its segment is gone.

Nothing ever runs uncapped: without a limiter there is no permit, the reason is logged, and it is tried again later.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent import futures
from typing import Final

from hardcap.amounts import SINGLE
from hardcap.config import Config
from hardcap.errors import CapExceeded, SegmentClosed, SegmentError
from hardcap.limiter import Limiter
from hardcap.opening import check, open_limiter, path_of
from hardcap.permit import Permit

Amount = int | Mapping[str, int]

_RETRY_SECONDS: Final = 1.0
_FLOOD_SECONDS: Final = 0.002  # a look at files and locks this often costs a few percent of a core at most

log = logging.getLogger("hardcap")


class Source:
    """The limiter of one middleware in this process, and the attempts to get one.

    Opening may wait seconds for the directory's lock, so it has a thread of its own. There is one attempt at a time in
    a process, whatever the number of event loops, and all who need the limiter wait for it. A failure stands for a
    second: neither tried nor logged again.
    """

    def __init__(self, limiter: Limiter | None, config: Config | None) -> None:
        self._limiter = self._given = limiter
        given = config if limiter is None else limiter
        assert given is not None  # one of the two
        self.path = path_of(given)  # tells whether two middlewares count in the same segment
        self._open = functools.partial(open_limiter, config) if config else functools.partial(copy.copy, limiter)
        self._trouble = ""
        self._quiet_until = -math.inf
        self._flood_until = -math.inf
        self.forget_attempt()
        _sources.add(self)
        if config is not None:  # this loads the backend: in the thread, a fork amid it would leave the child half of it
            check(config)

    def forget_attempt(self) -> None:
        """In a forked child: whoever held the lock, or was attaching, is not there, and the limiter is the parent's."""
        self._lock = threading.Lock()
        self._attempt: futures.Future[None] | None = None

    def forget_parent(self) -> None:
        """In a forked child: attach anew, in the thread, since the inherited limiter would do it on the event loop."""
        self.forget_attempt()
        self._limiter = None

    def ask_in_flood(self, amount: Amount) -> Permit | int | None:
        """A permit for one unit, or the index of the resource that refused, counted. None: ask by ``admit`` instead.

        After a refusal the limiter looks for dead owners and for the end of its segment, which costs many times what
        the refusal does. For 2 ms after such a look nobody looks again.
        """
        limiter = self._limiter
        if limiter is None or amount != 1 or type(amount) is not int or time.monotonic() >= self._flood_until:
            return None
        try:
            answer = limiter._ask(SINGLE, 0)
            if isinstance(answer, int):
                limiter._connection.count_refusal(answer)
        except (SegmentError, OSError) as error:
            self._give_up(limiter, error)
            return None
        return answer

    def admit(self, amount: Amount, timeout: float = 0.0) -> Permit | None:
        """A permit; blocks up to ``timeout`` seconds, and up to one more while the limiter attaches.

        None if there is no limiter, ``CapExceeded`` if it says no.
        """
        until = time.monotonic() + timeout
        permit = self._ask(amount, timeout)
        if permit is None:
            if (attempt := self._attempt_under_way()) is not None:
                futures.wait([attempt], timeout + _RETRY_SECONDS)
            permit = self._ask(amount, max(0.0, until - time.monotonic()))  # another's attempt may be over by now
        if permit is None:
            self._report()
        return permit

    async def admit_async(self, amount: Amount, timeout: float = 0.0) -> Permit | None:
        """Like ``admit``, and the event loop goes on."""
        until = time.monotonic() + timeout
        permit = await self._ask_async(amount, timeout)
        if permit is None:
            if (attempt := self._attempt_under_way()) is not None:
                await asyncio.wait([asyncio.wrap_future(attempt)], timeout=timeout + _RETRY_SECONDS)
            permit = await self._ask_async(amount, max(0.0, until - time.monotonic()))
        if permit is None:
            self._report()
        return permit

    def _ask(self, amount: Amount, timeout: float) -> Permit | None:
        limiter = self._limiter
        if limiter is None:
            return None
        try:
            if isinstance(amount, int):
                # A native limiter answers calls without keywords by itself.
                return limiter.admit(amount, timeout=timeout) if timeout else limiter.admit(amount)
            # Our own keywords written out: among the resources they are an error.
            return limiter.admit(timeout=timeout, headroom=0, **amount)
        except CapExceeded:
            if amount == 1 and limiter._connection.enforced:
                self._flood_until = time.monotonic() + _FLOOD_SECONDS
            raise
        except (SegmentError, OSError) as error:
            self._give_up(limiter, error)
            return None

    async def _ask_async(self, amount: Amount, timeout: float) -> Permit | None:
        limiter = self._limiter
        if timeout == 0 or limiter is None:
            return self._ask(amount, 0.0)
        try:
            if isinstance(amount, int):
                return await limiter.admit_async(amount, timeout=timeout)
            return await limiter.admit_async(timeout=timeout, headroom=0, **amount)
        except (SegmentError, OSError) as error:
            self._give_up(limiter, error)
            return None

    def _give_up(self, limiter: Limiter, error: Exception) -> None:
        """Leave a limiter that fails to the permits it gave. One that its owner has closed is not opened again."""
        with self._lock:
            self._trouble = _text(error)
            closed_by_owner = limiter is self._given and isinstance(error, SegmentClosed)
            if self._limiter is limiter and not closed_by_owner:
                self._limiter = None

    def _attempt_under_way(self) -> futures.Future[None] | None:
        with self._lock:
            if self._attempt is None and self._limiter is None and time.monotonic() >= self._quiet_until:
                self._attempt = self._begin()
            return self._attempt

    def _begin(self) -> futures.Future[None] | None:
        attempt: futures.Future[None] = futures.Future()
        self._trouble = "still attaching, which may have to wait for the directory's lock"
        attempt.set_running_or_notify_cancel()  # so that one who is cancelled leaves it to the others
        try:
            threading.Thread(target=self._attach, args=(attempt,), name="hardcap-attach").start()
        except RuntimeError as error:  # no more threads to be had
            self._trouble = _text(error)
            return None
        return attempt

    def _attach(self, attempt: futures.Future[None]) -> None:
        limiter = None
        try:
            limiter = self._open()
        except Exception as error:  # whatever it is: without a limiter nobody is let in
            self._trouble = _text(error)
        with self._lock:
            self._limiter = limiter
            self._attempt = None
        attempt.set_result(None)

    def _report(self) -> None:
        """There is no permit, and nobody knows how many there are."""
        with self._lock:
            now = time.monotonic()
            if now < self._quiet_until:
                return
            self._quiet_until = now + _RETRY_SECONDS
        log.error("requests are answered 503, because they cannot be counted: %s", self._trouble)


def _text(error: Exception) -> str:
    """What to log of an error: text, since the error itself would keep the frames it came through."""
    return f"{type(error).__name__}: {error}"


_sources: weakref.WeakSet[Source] = weakref.WeakSet()


def _forget_parent() -> None:
    for source in _sources:
        source.forget_parent()


os.register_at_fork(after_in_child=_forget_parent)
