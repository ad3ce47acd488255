"""`MiddlewareSettings`: arguments, environment, file."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from hardcap import asgi, wsgi
from hardcap.config import Config, MiddlewareSettings
from tests.support.settings import env, refusal, toml


def read(**variables: str) -> MiddlewareSettings:
    """What a middleware would go by in that environment."""
    return Config.from_env(env(**{"NAME": "web", **variables})).middleware


def test_a_middleware_refuses_at_once_with_503() -> None:
    settings = read()
    assert settings == MiddlewareSettings()
    assert (settings.timeout, settings.status, settings.retry_after) == (0.0, 503, 1.0)
    assert settings.exempt == ("/health", "/healthz", "/livez", "/readyz", "/metrics")


@pytest.mark.parametrize(
    ("key", "value", "normal"),
    [
        ("timeout", 0, 0.0),
        ("timeout", 2.5, 2.5),
        ("status", 429, 429),
        ("status", HTTPStatus.SERVICE_UNAVAILABLE, 503),
        ("retry_after", 3, 3.0),
        ("retry_after", float, float),
        ("max_waiting", 0, 0),
        ("exempt", (), ()),
        ("exempt", ["/a", "/a b"], ("/a", "/a b")),
        ("exempt", ["/*", "/a/*"], ("/*", "/a/*")),
    ],
)
def test_a_middleware_setting_is_taken(key: str, value: object, normal: object) -> None:
    taken = getattr(MiddlewareSettings(**{key: value}), key)  # type: ignore[arg-type]
    assert taken == normal
    assert type(taken) is type(normal)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (key, value)
            for key in ["timeout", "retry_after"]
            for value in [-0.1, -1, math.nan, math.inf, 10**400, True, "1", None, 1j]
        ),
        *(("max_waiting", value) for value in [-1, 2**31, 1.0, True, "1", None]),
        *(("status", value) for value in [200, 500, 504, 503.0, "503", True, None]),
        *(("exempt", value) for value in ["/health", b"/health", None, 3, {"/a": 1}]),
    ],
)
def test_a_wrong_middleware_setting_is_refused(key: str, value: object) -> None:
    error = refusal(MiddlewareSettings, **{key: value})
    assert (error.key, error.value) == (key, value)


@pytest.mark.parametrize("path", ["", "health", " /health", "/health\n", "/a*", "/*/b", "/**", 3, b"/health", None])
def test_a_wrong_exempt_path_is_named(path: object) -> None:
    error = refusal(MiddlewareSettings, exempt=["/ok", path])
    assert (error.key, error.value) == ("path in exempt", path)


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("TIMEOUT", "2", "timeout", 2.0),
        ("TIMEOUT", "0.25", "timeout", 0.25),
        ("STATUS", "429", "status", 429),
        ("RETRY_AFTER", "0", "retry_after", 0.0),
        ("EXEMPT", "/ping", "exempt", ("/ping",)),
        ("EXEMPT", "/ping,/pong", "exempt", ("/ping", "/pong")),
    ],
)
def test_a_middleware_variable_is_read(variable: str, text: str, key: str, value: object) -> None:
    assert getattr(read(**{variable: text}), key) == value


@pytest.mark.parametrize(
    ("variable", "text", "key"),
    [
        *(
            (variable, text, f"HARDCAP_{variable}")
            for variable in ["TIMEOUT", "RETRY_AFTER"]
            for text in ["-1", "+1", "nan", "inf", "1_0", " 1", "1s", ".5", "1.", "1e3", "٣", "1\n", "9" * 400]
        ),
        *(("STATUS", text, "HARDCAP_STATUS") for text in ["200", "5_03", "503.0", "busy"]),
        *(("EXEMPT", text, "path in HARDCAP_EXEMPT") for text in ["health", "/a,", "/a, /b", ",", "/a\n"]),
    ],
)
def test_a_middleware_variable_that_does_not_parse_is_named(variable: str, text: str, key: str) -> None:
    assert refusal(read, **{variable: text}).key == key


def test_a_middleware_reads_the_same_file(tmp_path: Path) -> None:
    text = '[hardcap]\nname = "web"\ntimeout = 1\nstatus = 429\nretry_after = 0.5\nexempt = ["/ping", "/a,b"]'
    path = str(toml(tmp_path, text))
    settings = read(CONFIG=path, STATUS="503")
    assert settings == MiddlewareSettings(timeout=1.0, status=503, retry_after=0.5, exempt=("/ping", "/a,b"))


def test_a_wrong_middleware_setting_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, "[hardcap]\nstatus = 200")
    assert refusal(read, CONFIG=str(path)).key == f"status in '{path}'"


@pytest.mark.parametrize("settings", [MiddlewareSettings(), MiddlewareSettings(timeout=1, exempt=("/a",))])
def test_middleware_settings_are_plain_values(settings: MiddlewareSettings) -> None:
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert dataclasses.replace(settings) == settings
    assert hash(settings) == hash(copy.deepcopy(settings))


def test_a_configuration_from_a_file_holds_them(tmp_path: Path) -> None:
    path = toml(tmp_path, '[hardcap]\nname = "web"\nstatus = 429\ntimeout = 1')
    assert Config.from_toml(path) == Config("web", middleware=MiddlewareSettings(status=429, timeout=1))
    path = toml(tmp_path, '[hardcap]\nname = "web"\nstatus = 500')
    assert refusal(Config.from_toml, path).key == f"status in '{path}'"


@pytest.mark.parametrize("settings", [None, {}, {"status": 429}])
def test_what_are_no_settings_is_refused(settings: object) -> None:
    assert refusal(Config, "web", middleware=settings).key == "middleware"


@pytest.mark.parametrize("middleware", [asgi.HardcapMiddleware, wsgi.HardcapMiddleware])
def test_a_middleware_goes_by_those_of_its_configuration(middleware: Callable[..., Any]) -> None:
    config = Config("web", limit=1, middleware=MiddlewareSettings(status=429, timeout=3, exempt=("/ping",)))
    made = middleware(None, config=config)
    assert (made._full.status, made._timeout, "/ping" in made._exempt) == (429, 3.0, True)
    made = middleware(None, config=config, status=503, timeout=0.0)
    assert (made._full.status, made._timeout, "/ping" in made._exempt) == (503, 0.0, True)
