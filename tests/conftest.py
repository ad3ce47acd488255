"""Fixtures for all tests: a segment directory and a name of their own, children that are always reaped."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.witness import Witness
from tests.support import expected, leaks
from tests.support.processes import Child

_numbers = itertools.count()

Spawn = Callable[..., Child]


def pytest_configure(config: pytest.Config) -> None:
    leaks.adopt_orphans()
    if config.getoption("dist", "no") == "no":  # else the tests run in processes that are yet to be told
        expected.hide()
    # A shell's background job ignores the interrupt, and so would every process that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests had to tell: properties recorded under the name ``told``."""
    passed = terminalreporter.getreports("passed")
    told = [value for report in passed for name, value in report.user_properties if name == "told"]
    if told:
        terminalreporter.section("what came of it")
        for line in sorted(map(str, told)):
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a child, a thread, an open segment, or a file in the default directory."""
    prefix = f"t{os.getpid()}-"
    before = leaks.everything(prefix)
    yield
    left = leaks.left_behind(before, prefix)
    assert not left, f"left behind: {sorted(left)}"


@pytest.fixture
def name() -> str:
    """A segment name that no other test, in no other process, uses."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def segment_dir() -> Iterator[Path]:
    """A directory of mode 0700 for ``directory=``, on shared memory as in production."""
    path = Path(tempfile.mkdtemp(prefix="hardcap-test-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def seen(segment_dir: Path) -> Iterator[Witness]:
    """The witness of those who work on this test's segments."""
    with contextlib.closing(Witness(segment_dir / "witness")) as witness:
        yield witness


@pytest.fixture
def spawn(segment_dir: Path) -> Iterator[Spawn]:
    """Start children: ``spawn(flags=..., prefix=..., env=..., noisy=...)``, killed and reaped in the end, before the
    directory that they work in is removed: they would say so.

    A child that wrote to stderr fails the test, unless started with ``noisy=True``.
    """
    quiet: list[Child] = []
    with contextlib.ExitStack() as stack:

        def start(*, noisy: bool = False, **options: Any) -> Child:
            child = Child(**options)
            stack.callback(child.close)
            if not noisy:
                quiet.append(child)
            return child

        yield start
        for child in quiet:
            assert child.stderr == ""


@pytest.fixture
def attached(spawn: Spawn, name: str, segment_dir: Path) -> Spawn:
    """Start children with ``limiter`` open on this test's segment: ``attached(limit=8, mode="strict")``."""

    def start(*, options: dict[str, Any] | None = None, **settings: Any) -> Child:
        child = spawn(**(options or {}))
        code = "import hardcap, os\nlimiter = hardcap.open(name, directory=directory, **settings)"
        child.run(code, name=name, directory=os.fspath(segment_dir), settings=settings)
        return child

    return start
