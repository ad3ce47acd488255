"""The WSGI middleware, driven directly: who is refused and how, who is exempt, how it attaches."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest

import hardcap
from hardcap.wsgi import HardcapMiddleware
from tests.support.asgi import DEFAULT_EXEMPT
from tests.support.processes import eventually
from tests.support.segments import directory_locked
from tests.support.wsgi import Environ, answers, call, serve


def never(environ: Environ, start_response: Any) -> Iterable[bytes]:
    raise AssertionError("the application must not be called")


# --- B44: the refusal itself -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_b44_a_refusal_is_complete(limiter: hardcap.Limiter, method: str, status: int) -> None:
    limiter.set_limit(requests=0)
    app = validator(HardcapMiddleware(never, limiter, status=status))
    whole = serve(app).body
    refused = serve(app, method=method)
    assert refused.status == status
    assert json.loads(whole)["error"]["code"] == status
    assert refused.body == (b"" if method == "HEAD" else whole)
    assert refused.headers["content-type"] == "application/json"
    assert refused.headers["content-length"] == str(len(whole))
    assert limiter.in_flight == 0


@pytest.mark.parametrize(("seconds", "header"), [(0, "0"), (0.4, "1"), (1, "1"), (1.2, "2")])
def test_b44_retry_after_is_whole_seconds_rounded_up(limiter: hardcap.Limiter, seconds: float, header: str) -> None:
    limiter.set_limit(requests=0)
    assert serve(HardcapMiddleware(never, limiter, retry_after=seconds)).headers["retry-after"] == header


@pytest.mark.parametrize(
    "wrong", [{"status": 404}, {"retry_after": -1}, {"exempt": "/health"}, {"timeout": -1.0}, {"config": "x"}]
)
def test_a_wrong_argument_fails_when_the_middleware_is_made(limiter: hardcap.Limiter, wrong: dict[str, Any]) -> None:
    with pytest.raises(hardcap.ConfigError, match=next(iter(wrong))):
        HardcapMiddleware(never, limiter, **wrong)


# --- B45: exempt paths, and what a request asks for ------------------------------------------------------------------


@pytest.mark.parametrize("script_name", ["", "/api", "/health"])
@pytest.mark.parametrize("path", DEFAULT_EXEMPT)
def test_b45_exempt_paths_are_answered_and_not_counted(limiter: hardcap.Limiter, path: str, script_name: str) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(answers(b"well"), limiter)
    assert {serve(app, form, SCRIPT_NAME=script_name).status for form in (path, f"{path}/")} == {200}
    assert limiter.snapshot().totals.admitted == 0


@pytest.mark.parametrize("path", ["", "/", "/healthy", "/health/x", "/x/health", "//health", "/HEALTH"])
def test_b45_others_are_not_exempt(limiter: hardcap.Limiter, path: str) -> None:
    limiter.set_limit(requests=0)
    assert serve(HardcapMiddleware(never, limiter), path).status == 503


def test_b45_an_exempt_path_beyond_ascii(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(answers(b"well"), limiter, exempt=["/prüfung"])
    assert serve(app, "/prüfung".encode().decode("latin-1")).status == 200


def test_amount_is_asked_of_each_request(limiter: hardcap.Limiter) -> None:
    def amount(environ: Environ) -> dict[str, int]:
        return {"requests": 1, "tokens": int(environ["QUERY_STRING"])}

    app = HardcapMiddleware(answers(b"x"), limiter, amount=amount)
    assert [serve(app, QUERY_STRING=tokens).status for tokens in ("100", "101")] == [200, 503]
    with pytest.raises(ValueError, match="many"):
        serve(app, QUERY_STRING="many")
    with pytest.raises(hardcap.ConfigError, match="amount"):
        serve(HardcapMiddleware(never, limiter, amount=lambda environ: {}))
    assert limiter.in_flight == 0


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_request_waits_in_its_thread_for_room(limiter: hardcap.Limiter) -> None:
    permit = limiter.admit(2)
    with ThreadPoolExecutor(1) as clients:
        waiting = clients.submit(serve, HardcapMiddleware(answers(b"x"), limiter, timeout=60))
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        permit.release()
        assert waiting.result(60).status == 200
    assert limiter.in_flight == 0


def test_a_request_waits_no_longer_than_its_time(limiter: hardcap.Limiter) -> None:
    with limiter.admit(2):
        assert serve(HardcapMiddleware(never, limiter, timeout=0.05)).status == 503
    assert limiter.in_flight == 0


# --- the environment alone; attached once, and again -----------------------------------------------------------------


@pytest.fixture
def from_environment(configured: Callable[[object], None]) -> None:
    configured(1)


@pytest.mark.usefixtures("from_environment")
def test_the_environment_is_enough_and_nothing_is_attached_before_it_is_needed(name: str, segment_dir: Path) -> None:
    app = HardcapMiddleware(answers(b"x"))
    assert serve(app, "/health").status == 200
    assert not (segment_dir / name).exists()
    response = call(app)
    assert hardcap.inspect(name, segment_dir).resources[0].in_flight == 1
    assert serve(app).status == 503
    response.close()
    assert serve(app).status == 200


@pytest.mark.usefixtures("from_environment")
def test_threads_attach_once(
    monkeypatch: pytest.MonkeyPatch, name: str, segment_dir: Path, attempts: list[str]
) -> None:
    monkeypatch.setenv("HARDCAP_LIMIT", "8")
    app = HardcapMiddleware(answers(b"x"))
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(serve(app).status)) for _ in range(8)]
    with directory_locked(segment_dir):
        for thread in threads:
            thread.start()
        eventually(lambda: bool(attempts), "one of them attaches")
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 8
    assert attempts == [name]


@pytest.mark.usefixtures("from_environment")
def test_no_attachment_is_503_and_a_line_until_it_can_be(
    caplog: pytest.LogCaptureFixture, name: str, segment_dir: Path
) -> None:
    app = HardcapMiddleware(answers(b"x"), status=429)
    junk = segment_dir / name
    junk.write_bytes(b"not a segment")
    junk.chmod(0o600)
    with caplog.at_level(logging.ERROR, "hardcap"):
        assert {serve(app).status for _ in range(20)} == {503}
    assert os.fspath(junk) in caplog.text
    junk.unlink()
    eventually(lambda: serve(app).status == 200, "attached once it can be")


def test_a_retired_segment_is_left_for_a_new_one(limiter: hardcap.Limiter, name: str, segment_dir: Path) -> None:
    app = HardcapMiddleware(answers(b"x"), limiter)
    before = call(app)
    hardcap.unlink(name, directory=segment_dir, force=True)
    assert serve(app).status == 200
    before.close()
    snapshot = hardcap.inspect(name, segment_dir)
    assert snapshot.totals.admitted == 1 and snapshot.resources[0].in_flight == 0
