"""The line that tells of refusals: once a minute at most, with the counts, from each process that refuses."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

import hardcap
from hardcap import overload
from tests.conftest import Spawn
from tests.support.views import warnings

LOGGED = "import logging\nlogging.basicConfig(format='%(levelname)s %(name)s %(message)s')"
REFUSE = "sum(not limiter.reserve() for _ in range(n))"


def test_a_thousand_refusals_are_one_line(
    segment_dir: Path, name: str, mode: str, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    with hardcap.open(name, limit=2, mode=mode, backend=backend, directory=segment_dir) as limiter:
        assert limiter.reserve(2)
        assert warnings(caplog) == []
        assert not any(limiter.reserve() for _ in range(1000))
        with pytest.raises(hardcap.CapExceeded):
            limiter.admit()
    (line,) = warnings(caplog)
    full = f"limiter '{name}' is full: 2 of 2 requests in flight"
    assert line.startswith(f"{full}; calls refused by all processes: 1 since the last such line, ")


def test_the_next_line_counts_what_came_since(
    segment_dir: Path,
    name: str,
    mode: str,
    backend: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"requests": 9, "tokens": 1}
    with hardcap.open(name, limits=limits, mode=mode, backend=backend, directory=segment_dir) as limiter:
        assert not any(limiter.reserve(tokens=2) for _ in range(5))
        monkeypatch.setattr(overload, "_lines", {})  # as a minute later, or in another process
        assert not limiter.reserve(10)
        monkeypatch.setattr(overload, "INTERVAL", 0.0)
        overload._lines.clear()
        assert not any(limiter.reserve(tokens=2) for _ in range(3))
    told = [line.partition(" in flight; calls refused by all processes: ") for line in warnings(caplog)]
    assert [what.rpartition(": ")[2] for what, _, _ in told] == [
        "0 of 1 tokens",
        "0 of 9 requests",
        *["0 of 1 tokens"] * 3,
    ]
    counts = [text.split(" since the last such line, ") for _, _, text in told]
    assert [(since, total.split()[0]) for since, total in counts] == [
        ("1", "1"),
        ("6", "6"),
        ("7", "7"),
        ("1", "8"),
        ("1", "9"),
    ]


def test_limiters_and_threads_of_one_process_share_the_line(
    segment_dir: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(limiter: hardcap.Limiter) -> None:
        assert not any(limiter.reserve() for _ in range(200))

    with hardcap.open(name, limit=0, directory=segment_dir) as one, hardcap.open(name, directory=segment_dir) as two:
        threads = [threading.Thread(target=refuse, args=(limiter,)) for limiter in (one, two) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with hardcap.open(name, limit=0, directory=segment_dir) as again:
        assert not again.reserve()
    assert len(warnings(caplog)) == 1


def test_a_handler_that_is_refused_itself(segment_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends the line on through a service with the same cap."""

    class Sending(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(limiter.reserve())

    seen: list[bool] = []
    monkeypatch.setattr(overload, "INTERVAL", 0.0)
    handler = Sending()
    with hardcap.open(name, limit=0, directory=segment_dir) as limiter:
        overload.log.addHandler(handler)
        try:
            assert not limiter.reserve()
        finally:
            overload.log.removeHandler(handler)
    assert seen == [False]


def test_a_damaged_segment_is_not_the_lines_to_tell_of(segment_dir: Path, name: str) -> None:
    with hardcap.open(name, limit=0, directory=segment_dir) as limiter:
        admission = limiter._connection.live()
        overload.tell(admission, 0)
        limiter.close()
        overload._lines.clear()
        overload.tell(admission, 0)


def test_each_process_tells_a_forked_one_too(attached: Spawn, mode: str) -> None:
    child = attached(limit=0, mode=mode, options={"noisy": True})
    child.run(LOGGED)
    assert child.run(REFUSE, n=100) == 100
    child.run(f"if not (pid := os.fork()):\n    n = 100\n    os._exit({REFUSE})\nstatus = os.waitpid(pid, 0)[1]")
    assert child.run("os.waitstatus_to_exitcode(status)") == 100
    assert child.finish() == 0
    lines = child.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("WARNING hardcap limiter '") for line in lines)


def test_who_has_not_set_up_logging_reads_nothing(attached: Spawn, mode: str) -> None:
    """On stderr, which the last resort of logging would write to."""
    child = attached(limit=0, mode=mode)
    assert child.run(REFUSE, n=100) == 100
    assert child.run("import threading\nthreading.active_count()") == 1
    assert child.finish() == 0
    assert child.stderr == ""
