"""A crew: processes that attach to every subject once, and then do each task together.

Attaching, importing and starting are over before the first task begins, so no task measures them.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess, SpawnProcess
from multiprocessing.synchronize import Barrier
from typing import Any, Final, Protocol, Self, TypeVar

from bench.baselines import Attach, Context, Gate

ANSWER_SECONDS: Final = 120.0  # far above the longest task: who is silent for so long hangs
LEAVE_SECONDS: Final = 5.0

Process = SpawnProcess | ForkServerProcess
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class WorkerFailed(Exception):
    """A process of the crew raised, died or hangs: its figures are missing, so there are no figures."""


@dataclass(frozen=True)
class Raised:
    """What a process sends in place of a result."""

    text: str


class Task(Protocol[Result_co]):
    """What every process does at once. ``start`` is the barrier that all of them pass together."""

    def __call__(self, gate: Gate, start: Barrier) -> Result_co: ...


class Crew:
    """``processes`` processes, each attached to every subject, in the order of ``shares``."""

    def __init__(self, context: Context, shares: Sequence[Attach], processes: int) -> None:
        self._context = context
        self._shares = shares  # kept: semaphores lose their name with the parent's last reference
        self._start = context.Barrier(processes)
        self._members: list[tuple[Process, Connection]] = []
        try:
            for index in range(processes):
                self._members.append(self._spawn(index))
        except BaseException as error:  # interrupted: nobody has entered yet, so nobody would leave
            self.__exit__(type(error))
            raise

    def _spawn(self, index: int) -> tuple[Process, Connection]:
        ours, theirs = self._context.Pipe()
        arguments = (theirs, self._start, self._shares, index)
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for process, pipe in self._members:
            if kind is not None:
                process.kill()
            pipe.close()
        for process, _pipe in self._members:
            process.join(LEAVE_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()

    def attached(self) -> None:
        """Wait until every process is attached to every subject."""
        self._gather()

    def run(self, subject: int, task: Task[Result]) -> list[Result]:
        """What each process found when all of them did ``task`` on that subject. Raises ``WorkerFailed``."""
        for process, pipe in self._members:
            try:
                pipe.send((subject, task))
            except OSError:
                raise _died(process) from None
        return self._gather()

    def _gather(self) -> list[Any]:
        silent = {pipe: process for process, pipe in self._members}
        results: list[Any] = []
        while silent:
            ready = wait(list(silent), timeout=ANSWER_SECONDS)
            if not ready:
                raise WorkerFailed(f"{len(silent)} processes gave no answer in {ANSWER_SECONDS:.0f} s")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                results.append(_answer(pipe, silent.pop(pipe)))
        return results


def _answer(pipe: Connection, process: Process) -> Any:
    try:
        result = pipe.recv()
    except (EOFError, OSError):
        raise _died(process) from None
    if isinstance(result, Raised):
        raise WorkerFailed(f"{process.name} raised\n{result.text}")
    return result


def _died(process: Process) -> WorkerFailed:
    process.join(LEAVE_SECONDS)  # it may still be telling why
    return WorkerFailed(f"{process.name} died, exit status {process.exitcode}")


def _serve(pipe: Connection, start: Barrier, shares: Sequence[Attach], index: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it closes the pipe
    try:
        with ExitStack() as leave:
            gates = [attach(index) for attach in shares]
            for gate in gates:
                leave.callback(gate.close)
            pipe.send(None)
            _obey(pipe, start, gates)
    except Exception:
        with suppress(OSError):  # the parent may be gone, and take away what is used here
            pipe.send(Raised(traceback.format_exc()))


def _obey(pipe: Connection, start: Barrier, gates: Sequence[Gate]) -> None:
    while True:
        try:
            subject, task = pipe.recv()
        except EOFError:
            return
        pipe.send(task(gates[subject], start))
