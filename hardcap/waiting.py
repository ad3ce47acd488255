"""Waiting for room: a queue of each limiter in each process, and a thread that serves it while somebody waits.

Blocked threads and suspended asyncio tasks stand in one queue. The thread asks for the first of them, sleeps until the
bell of the segment rings, and asks again. It needs nobody: its sleeps are bounded, so a process that dies while others
wait for it, or a bell that nobody rang, costs one sleep.

A waiter leaves with its permit, with an error, or with neither; what is granted to one that has left goes back.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hardcap import bell, descriptors
from hardcap.amounts import check_headroom, check_timeout
from hardcap.connection import Connection
from hardcap.permit import Permit

if TYPE_CHECKING:
    import asyncio

PAUSE: Final = 0.001  # seconds without a bell after it rang for others: what a crowd of releases may cost
LOOK: Final = 0.1  # seconds between two looks for dead owners, and for the end of the segment
_LONGEST: Final = threading.TIMEOUT_MAX

Ask = Callable[..., Permit | int]


class Waiter:
    """One call of ``admit``: what it asks for, and what comes of it. Raises what ``admit`` does for wrong arguments."""

    def __init__(
        self,
        connection: Connection,
        ask: Ask,
        amount: int,
        timeout: float | None,
        headroom: int,
        amounts: dict[str, int],
    ) -> None:
        self.connection = connection
        self.wanted = connection.wanted(amount, amounts)
        self.headroom = check_headroom(headroom)
        self.timeout = check_timeout(timeout)
        self.tell: Callable[[], object]  # set by who waits; called once, when there is an outcome
        self.permit: Permit | None = None
        self.error: BaseException | None = None
        self._resources = frozenset(index for index, _ in self.wanted)
        self.kind = (self.headroom, self._resources)
        self._refused = self.wanted[0][0]
        self._ask = ask

    def goes_before(self, later: Waiter) -> bool:
        """Whether one that came later has to wait for this one."""
        return self.headroom <= later.headroom and not self._resources.isdisjoint(later._resources)

    def try_at_once(self) -> Permit | None:
        """What comes of it without waiting; None if it has to."""
        patient = self.timeout != 0 and self.connection.enforced
        if patient and queue_of(self.connection).makes_wait(self):
            return None
        permit = self.attempt()
        return permit if permit is not None or patient else self.give_up()

    def attempt(self, *, look: bool = True) -> Permit | None:
        """Ask; then look for dead owners, and ask once more if units came back. No refusal is counted."""
        answer = self._ask(self.wanted, self.headroom)
        if isinstance(answer, int) and look and self.connection.look_again():
            answer = self._ask(self.wanted, self.headroom)
        if not isinstance(answer, int):
            return answer
        self._refused = answer
        return None

    def give_up(self) -> Permit:
        """Count one refusal and raise it: :class:`CapExceeded`. A dry run admits all the same."""
        self.connection.count_refusal(self._refused)
        if not self.connection.enforced:
            answer = self._ask(self.wanted, self.headroom, False)
            if not isinstance(answer, int):
                return answer
        raise self.connection.exceeded(self.wanted, self.headroom, self._refused)

    def outcome(self) -> Permit:
        """At the end of the wait."""
        queue_of(self.connection).leave(self)
        if self.error is not None:
            raise self.error
        return self.permit if self.permit is not None else self.give_up()

    def abandon(self) -> None:
        """Leave, and give back what was granted."""
        queue_of(self.connection).leave(self)
        if self.permit is not None:
            self.permit.release()


class Queue:
    """Those who wait in this process for one limiter, in the order they came."""

    def __init__(self, connection: Connection) -> None:
        self._connection = weakref.ref(connection)  # who waits keeps it alive
        self._lock = threading.RLock()  # for a signal handler that waits too
        self._waiters: list[Waiter] = []
        self._thread: threading.Thread | None = None
        self._look_due = 0.0

    def __len__(self) -> int:
        return len(self._waiters)

    def makes_wait(self, waiter: Waiter) -> bool:
        """Whether somebody who has not left goes before it."""
        with self._lock:
            return any(earlier.goes_before(waiter) for earlier in self._waiters if earlier is not waiter)

    def add(self, waiter: Waiter) -> None:
        """Begin to wait."""
        with self._lock:
            unserved = not self.makes_wait(waiter)
            self._waiters.append(waiter)
            asleep = self._thread is not None and self._thread.is_alive()
            if not asleep:
                self._start()
        if asleep and unserved:  # it has not asked for this one
            waiter.connection.ring_bell()

    def leave(self, waiter: Waiter) -> None:
        """Wait no longer."""
        with self._lock, contextlib.suppress(ValueError):
            self._waiters.remove(waiter)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="hardcap-waiting", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._is_needed():
            try:
                self._round()
            except BaseException as error:  # the segment is closed, retired or damaged: all of them are told
                self._fail(error)

    def _is_needed(self) -> bool:
        with self._lock:
            if self._thread is not threading.current_thread():
                return False
            if not self._waiters:
                self._thread = None
            return bool(self._waiters)

    def _round(self) -> None:
        # [W1] waiting: the bell is set before it is asked once more.
        #   pairs: [W1] in strict and approximate, where room is made before the bell is read
        #   else:  a unit is released in between, and nobody wakes us: for one bounded sleep.
        address = self._arm_bell()
        if not self._serve(look=self._is_look_due()) and bell.sleep(address) and not self._serve():
            time.sleep(PAUSE)

    def _is_look_due(self) -> bool:
        now = time.monotonic()
        if now < self._look_due:
            return False
        self._look_due = now + LOOK
        return True

    def _arm_bell(self) -> int:
        """In a frame of its own: whoever sleeps keeps no limiter alive."""
        connection = self._connection()
        return 0 if connection is None else connection.arm_bell()

    def _serve(self, *, look: bool = False) -> bool:
        """Ask for each whose turn it is. Whether anything came of it."""
        with self._lock:
            waiters = self._waiters.copy()
        served = False
        refused: list[Waiter] = []
        stuck: set[tuple[int, frozenset[int]]] = set()  # kinds, so that a crowd of one kind costs next to nothing
        for waiter in waiters:
            if waiter.kind in stuck:
                continue
            if any(earlier.goes_before(waiter) for earlier in refused):
                stuck.add(waiter.kind)
            elif self._grant(waiter, look):
                served = True
            else:
                refused.append(waiter)
                stuck.add(waiter.kind)
        return served

    def _grant(self, waiter: Waiter, look: bool) -> bool:
        permit = waiter.attempt(look=look)
        if permit is None:
            return False
        with self._lock:
            still_there = waiter in self._waiters
            if still_there:
                self._waiters.remove(waiter)
                waiter.permit = permit
        if still_there:
            _tell(waiter)
        else:
            permit.release()
        return True

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.error = copy.copy(error)
            _tell(waiter)


def block(waiter: Waiter) -> Permit:
    """Wait in this thread; signal handlers run, and what they raise ends it."""
    told = threading.Lock()
    told.acquire()
    waiter.tell = told.release
    try:
        queue_of(waiter.connection).add(waiter)
        told.acquire(timeout=_LONGEST if waiter.timeout is None else min(waiter.timeout, _LONGEST))
        return waiter.outcome()
    except BaseException:
        waiter.abandon()
        raise


async def suspend(waiter: Waiter) -> Permit:
    """Wait in this task. Its future only says when to look, so nothing is lost with it."""
    import asyncio  # by whoever waits so, who has it: the others need not load it

    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    waiter.tell = functools.partial(loop.call_soon_threadsafe, _wake, future)
    timer = None if waiter.timeout is None else loop.call_later(min(waiter.timeout, _LONGEST), _wake, future)
    try:
        queue_of(waiter.connection).add(waiter)
        await future
        return waiter.outcome()
    except BaseException:
        waiter.abandon()
        raise
    finally:
        if timer is not None:
            timer.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _tell(waiter: Waiter) -> None:
    try:
        waiter.tell()
    except RuntimeError:  # its event loop is closed
        waiter.abandon()


def queue_of(connection: Connection) -> Queue:
    """The queue of that limiter in this process."""
    with _guard:
        queue = _queues.get(connection)
        if queue is None:
            queue = _queues[connection] = Queue(connection)
        return queue


_guard = threading.RLock()
_queues: weakref.WeakKeyDictionary[Connection, Queue] = weakref.WeakKeyDictionary()


@descriptors.in_forked_child
def _forget_parent() -> None:
    """Those who wait are the parent's, and so is the thread that serves them."""
    global _guard, _queues
    _guard = threading.RLock()
    _queues = weakref.WeakKeyDictionary()
