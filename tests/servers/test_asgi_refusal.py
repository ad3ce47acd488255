"""The ASGI middleware, driven directly: who is refused and how, who is exempt, what may be configured."""

from __future__ import annotations

import asyncio
import json
import math
import time
from typing import Any

import pytest

import hardcap
from hardcap.asgi import HardcapMiddleware
from hardcap.wsgi import HardcapMiddleware as WsgiMiddleware
from tests.support.asgi import DEFAULT_EXEMPT, Exchange, Message, answers, never


def request(app: Any, path: str = "/", **scope: Any) -> Exchange:
    return asyncio.run(Exchange(path, **scope).run(app))


# --- B44, B29: the refusal itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 429])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_b44_b29_a_refusal_is_complete_and_sent_before_anything_is_received(
    limiter: hardcap.Limiter, method: str, status: int
) -> None:
    limiter.set_limit(requests=0)
    refused = request(HardcapMiddleware(never, limiter, status=status), method=method)
    assert refused.received == 0
    assert [message["type"] for message in refused.sent] == ["http.response.start", "http.response.body"]
    assert not refused.sent[-1]["more_body"]
    assert refused.status == status
    assert refused.headers[b"content-type"] == b"application/json"
    whole = request(HardcapMiddleware(never, limiter, status=status)).body
    assert json.loads(whole)["error"]["code"] == status
    assert refused.headers[b"content-length"] == b"%d" % len(whole)
    assert refused.body == (b"" if method == "HEAD" else whole)
    assert limiter.in_flight == 0


@pytest.mark.parametrize(
    ("seconds", "header"), [(0, b"0"), (0.0, b"0"), (0.4, b"1"), (1, b"1"), (1.2, b"2"), (60.0, b"60")]
)
def test_b44_retry_after_is_whole_seconds_rounded_up(limiter: hardcap.Limiter, seconds: float, header: bytes) -> None:
    limiter.set_limit(requests=0)
    refused = request(HardcapMiddleware(never, limiter, retry_after=seconds))
    assert [value for key, value in refused.sent[0]["headers"] if key == b"retry-after"] == [header]


@pytest.mark.parametrize("seconds", [-1, -0.1, math.nan, math.inf, True, "1", None])
def test_b44_retry_after_must_make_sense(limiter: hardcap.Limiter, seconds: Any) -> None:
    with pytest.raises(hardcap.ConfigError, match="retry_after"):
        HardcapMiddleware(never, limiter, retry_after=seconds)


@pytest.mark.parametrize(
    ("seconds", "header"),
    [(0, b"0"), (0.4, b"1"), (1.2, b"2"), *((bad, b"1") for bad in [-1, -0.1, math.nan, math.inf, True, "9", None])],
)
def test_b44_retry_after_may_be_called(limiter: hardcap.Limiter, seconds: Any, header: bytes) -> None:
    """What makes no sense is the default."""
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(never, limiter, retry_after=lambda: seconds)
    assert request(app).headers[b"retry-after"] == header


def test_b44_retry_after_is_called_for_each_refusal(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(never, limiter, retry_after=iter([3, 5]).__next__)
    assert [request(app).headers[b"retry-after"] for _ in range(2)] == [b"3", b"5"]


BROWSER = (b"accept", b"text/html,application/xhtml+xml,*/*;q=0.8")
JSON = (b"content-type", b"Application/JSON; charset=utf-8")


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ([], b"application/json"),
        ([(b"accept", b"*/*")], b"application/json"),
        ([(b"accept", b"application/json, text/event-stream")], b"application/json"),
        ([(b"accept", b"text/plain"), (b"accept", b"application/json")], b"application/json"),
        ([BROWSER, JSON], b"application/json"),
        ([BROWSER], b"text/plain; charset=utf-8"),
        ([(b"accept", b"Text/Plain")], b"text/plain; charset=utf-8"),
    ],
)
def test_b44_the_body_is_what_the_client_speaks(
    limiter: hardcap.Limiter, headers: list[tuple[bytes, bytes]], kind: bytes
) -> None:
    limiter.set_limit(requests=0)
    refused = request(HardcapMiddleware(never, limiter), headers=headers)
    text = b"too many requests in flight"
    assert refused.headers[b"content-type"] == kind
    assert refused.headers[b"content-length"] == b"%d" % len(refused.body)
    if kind == b"application/json":
        error = {"message": text.decode(), "type": "overloaded", "param": None, "code": 503}
        assert json.loads(refused.body) == {"error": error}
    else:
        assert refused.body == text + b"\n"


def test_b44_the_503_of_the_app_is_its_own(limiter: hardcap.Limiter) -> None:
    start = {"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"77")]}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start)
        await send({"type": "http.response.body", "body": b"mine"})

    answer = request(HardcapMiddleware(app, limiter))
    assert answer.sent[0] == start and answer.body == b"mine"


def test_b44_headers_added_to_one_refusal_are_not_in_the_next(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(never, limiter)

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_add(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-added", b"1"))
            await send(message)

        await app(scope, receive, send_and_add)

    added = [key for _ in range(3) for key, _ in request(outer).sent[0]["headers"] if key == b"x-added"]
    assert len(added) == 3


# --- B45: exempt paths, and not one more or less than the limit ------------------------------------------------------


@pytest.mark.parametrize("root_path", ["", "/api", "/api/", "/health"])
@pytest.mark.parametrize("path", DEFAULT_EXEMPT)
def test_b45_exempt_paths_are_answered_and_not_counted(limiter: hardcap.Limiter, path: str, root_path: str) -> None:
    limiter.set_limit(requests=0)
    root = root_path.rstrip("/")
    for form in (path, f"{path}/"):
        answer = request(HardcapMiddleware(answers, limiter), root + form, root_path=root_path)
        assert answer.status == 200
    assert limiter.snapshot().totals.admitted == 0


def test_b45_an_older_server_leaves_root_path_out_of_the_path(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    assert request(HardcapMiddleware(answers, limiter), "/health", root_path="/api").status == 200


@pytest.mark.parametrize("path", ["/", "/healthy", "/health/x", "/x/health", "//health", "/HEALTH", "health"])
def test_b45_others_are_not_exempt(limiter: hardcap.Limiter, path: str) -> None:
    limiter.set_limit(requests=0)
    assert request(HardcapMiddleware(never, limiter), path).status == 503


def test_b45_only_a_whole_prefix_is_one(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    assert request(HardcapMiddleware(never, limiter), "/apihealth", root_path="/api").status == 503
    assert request(HardcapMiddleware(never, limiter), "/app/health", root_path="/api").status == 503


def test_b45_own_exempt_paths_replace_the_default_ones(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(answers, limiter, exempt=["/", "/ping/"])
    assert [request(app, path).status for path in ("/", "/ping", "/ping/", "/health")] == [200, 200, 200, 503]
    assert [request(app, path, root_path="/api").status for path in ("/api", "/api/", "/apiping")] == [200, 200, 503]
    assert request(HardcapMiddleware(answers, limiter, exempt=[]), "/health").status == 503


@pytest.mark.parametrize("root_path", ["", "/api"])
def test_b45_a_prefix_exempts_what_is_below(limiter: hardcap.Limiter, root_path: str) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(answers, limiter, exempt=["/static/*", "/ping"])
    exempt = ["/static/", "/static/a", "/static/a/b.css", "/ping", "/ping/"]
    counted = ["/static", "/statics/a", "/a/static/b", "/ping/a", "/health"]
    assert {request(app, root_path + path, root_path=root_path).status for path in exempt} == {200}
    assert {request(app, root_path + path, root_path=root_path).status for path in counted} == {503}


def test_b45_everything_may_be_exempt(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=0)
    app = HardcapMiddleware(answers, limiter, exempt=["/*"])
    assert [request(app, path).status for path in ("/", "/a", "/a/b")] == [200] * 3


def test_b45_a_limit_of_one_admits_one(limiter: hardcap.Limiter) -> None:
    limiter.set_limit(requests=1)
    nested: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nested.append((await Exchange().run(counted)).status)
        await answers(scope, receive, send)

    counted = HardcapMiddleware(app, limiter)
    assert [request(counted).status for _ in range(3)] == [200] * 3
    assert nested == [503] * 3


# --- amounts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "held"),
    [(2, {"requests": 2, "tokens": 0}), ({"requests": 1, "tokens": 60}, {"requests": 1, "tokens": 60})],
)
def test_an_amount_is_taken_from_the_scope(limiter: hardcap.Limiter, amount: Any, held: dict[str, int]) -> None:
    seen: list[dict[str, int]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append({resource.name: resource.in_flight for resource in limiter.snapshot().resources})

    request(HardcapMiddleware(app, limiter, amount=lambda scope: scope["amount"]), amount=amount)
    assert seen == [held]
    assert limiter.in_flight == 0


def test_an_amount_that_does_not_fit_is_refused_whole(limiter: hardcap.Limiter) -> None:
    app = HardcapMiddleware(never, limiter, amount=lambda scope: {"requests": 1, "tokens": 101})
    assert request(app).status == 503
    assert [resource.in_flight for resource in limiter.snapshot().resources] == [0, 0]


NONSENSE = [0, -1, True, 1.5, 2**31, None, "1", {}, {"requests": 0}, {"timeout": 1}, {"headroom": 1}, {"no": 1}, {1: 1}]


@pytest.mark.parametrize("amount", NONSENSE, ids=repr)
def test_an_amount_that_makes_no_sense_is_an_error_and_holds_nothing(limiter: hardcap.Limiter, amount: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        request(HardcapMiddleware(never, limiter, amount=lambda scope: amount))
    assert limiter.in_flight == 0


def test_what_the_amount_raises_goes_to_the_server(limiter: hardcap.Limiter) -> None:
    def amount(scope: Any) -> int:
        raise LookupError("no such tenant")

    with pytest.raises(LookupError, match="no such tenant"):
        request(HardcapMiddleware(never, limiter, amount=amount))
    assert limiter.in_flight == 0


# --- bad configuration fails when the middleware is made -------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"status": 500},
        {"status": 200},
        {"exempt": "/health"},
        {"exempt": ["health"]},
        {"timeout": -1},
        {"timeout": math.nan},
        {"max_waiting": -1},
        {"max_waiting": True},
        {"exempt": ["/static*"]},
        {"exempt": ["/*/static"]},
        {"release_on": "start"},
        {"config": hardcap.Config("web", limit=1)},
    ],
    ids=repr,
)
def test_bad_arguments(limiter: hardcap.Limiter, bad: dict[str, Any]) -> None:
    with pytest.raises(hardcap.ConfigError, match=next(iter(bad))):
        HardcapMiddleware(never, limiter, **bad)


@pytest.mark.parametrize("names", [{"timeout": 1}, {"headroom": 1}, {1: 2}])
def test_an_amount_of_no_resource_is_named(limiter: hardcap.Limiter, names: Any) -> None:
    with pytest.raises(hardcap.ConfigError, match="resource name in amount is "):
        request(HardcapMiddleware(never, limiter, amount=lambda scope: names))
    assert limiter.in_flight == 0


@pytest.mark.parametrize("middleware", [HardcapMiddleware, WsgiMiddleware])
def test_an_amount_that_cannot_be_called_fails_at_once(limiter: hardcap.Limiter, middleware: Any) -> None:
    async def later(request: Any) -> int:
        return 1

    for amount in (3, later):
        with pytest.raises(hardcap.ConfigError, match=r"amount is .*, allowed: a callable .* not async"):
            middleware(never, limiter, amount=amount)


def test_b29_what_one_client_says_is_read_in_a_time_that_grows_with_it(limiter: hardcap.Limiter) -> None:
    """A hundred times as many headers cost about a hundred times as much, and not ten thousand times."""

    def cost(count: int) -> float:
        began = time.process_time()
        refused = request(app, headers=[(b"accept", b"text/html")] * count)
        assert (refused.status, refused.headers[b"content-type"]) == (503, b"text/plain; charset=utf-8")
        return time.process_time() - began

    app = HardcapMiddleware(never, limiter)
    assert limiter.reserve(limiter.limit)
    few, many = min(cost(2_000) for _ in range(5)), min(cost(200_000) for _ in range(3))
    assert many < 1_000 * few
    limiter.release(limiter.limit)
