"""`Config.from_env`: variables, refusals in the words of the environment, variables of others."""

from __future__ import annotations

import os

import pytest

from hardcap.config import Config, Limits, MiddlewareSettings, Mode
from hardcap.layout import MAX_SLOTS
from hardcap.settings import SETTINGS
from tests.support.settings import env, refusal

VARIABLES: list[tuple[str, str, str, object]] = [
    ("NAME", "other", "name", "other"),
    ("LIMIT", "10", "limit", 10),
    ("LIMIT", "0", "limit", 0),
    ("LIMIT", "10", "limits", {"requests": 10}),
    ("LIMIT", "requests=10,tokens=8192", "limits", Limits({"requests": 10, "tokens": 8192})),
    ("LIMIT", "tokens=8192,requests=10", "limits", Limits({"tokens": 8192, "requests": 10})),
    ("LIMIT", "requests=10", "limit", None),
    ("MODE", "approximate", "mode", Mode.approximate),
    ("MAX_PROCESSES", "32", "max_processes", 32),
    ("DIR", "/srv/my caps", "directory", "/srv/my caps"),
    ("PERMISSIONS", "600", "permissions", 0o600),
    ("PERMISSIONS", "0600", "permissions", 0o600),
    ("PERMISSIONS", "0o600", "permissions", 0o600),
    ("BACKEND", "native", "backend", "native"),
    *(("ENFORCE", text, "enforce", True) for text in ["true", "True", "TRUE", "1", "yes", "on"]),
    *(("ENFORCE", text, "enforce", False) for text in ["false", "False", "0", "no", "NO", "off"]),
]


@pytest.mark.parametrize(("variable", "text", "key", "value"), VARIABLES)
def test_a_variable_is_read(variable: str, text: str, key: str, value: object) -> None:
    assert getattr(Config.from_env(env(**{"NAME": "web", variable: text})), key) == value


@pytest.mark.parametrize("text", ["660", "0660", "0o660"])
def test_permissions_are_octal_in_each_spelling(text: str) -> None:
    assert Config.from_env(env(NAME="web", DIR="/srv/caps", PERMISSIONS=text)).permissions == 0o660


NO_NUMBER = [
    "1_0",
    "+3",
    "-1",
    " 3",
    "3 ",
    "3\n",
    "٣",
    "³",
    "0x10",
    "010",
    "1e3",
    "3.0",
    "three",
    "2147483648",
    "9" * 5000,
]
BAD_TEXTS: list[tuple[str, str, str]] = [
    *(("LIMIT", text, "HARDCAP_LIMIT") for text in [*NO_NUMBER, ",", "3,4", "requests", "requests:3", "requests 3"]),
    ("LIMIT", "requests=1,requests=2", "HARDCAP_LIMIT"),
    *(("LIMIT", f"requests={text}", "HARDCAP_LIMIT['requests']") for text in [*NO_NUMBER, "", "1=2"]),
    *(
        ("LIMIT", text, "resource name in HARDCAP_LIMIT")
        for text in ["=3", "requests=1,", ",requests=1", "requests=1,,tokens=2", "requests=1, tokens=2", "timeout=1"]
    ),
    ("LIMIT", "a=1,b=1,c=1,d=1,e=1", "HARDCAP_LIMIT"),
    *(("MAX_PROCESSES", text, "HARDCAP_MAX_PROCESSES") for text in [*NO_NUMBER, "0", str(MAX_SLOTS + 1)]),
    *(
        ("PERMISSIONS", text, "HARDCAP_PERMISSIONS")
        for text in ["rw", "9", "0x1b0", "-600", "6_00", "755", "600 ", "٦٠٠"]
    ),
    *(("ENFORCE", text, "HARDCAP_ENFORCE") for text in ["maybe", "2", "y", "true ", "none"]),
    *(("MODE", text, "HARDCAP_MODE") for text in ["Strict", "strict,approximate"]),
    ("BACKEND", "c", "HARDCAP_BACKEND"),
    *(("NAME", text, "HARDCAP_NAME") for text in ["a/b", "a\n", "-a"]),
    ("DIR", "a\0b", "HARDCAP_DIR"),
]


@pytest.mark.parametrize(("variable", "text", "key"), BAD_TEXTS, ids=[str(i) for i in range(len(BAD_TEXTS))])
def test_a_variable_that_does_not_parse_is_named(variable: str, text: str, key: str) -> None:
    assert refusal(Config.from_env, env(**{"NAME": "web", variable: text})).key == key


KNOWN = ["CONFIG", *dict.fromkeys(setting.variable for setting in SETTINGS.values())]


@pytest.mark.parametrize("variable", KNOWN)
def test_an_empty_variable_is_refused(variable: str) -> None:
    error = refusal(Config.from_env, env(**{"NAME": "web", variable: ""}))
    assert (error.key, error.value) == (f"HARDCAP_{variable}", "")
    assert error.allowed == "a value that is not empty, or no such variable"


def test_an_environment_without_a_name_is_told_where_it_belongs() -> None:
    assert refusal(Config.from_env, env(LIMIT="10")).key == "HARDCAP_NAME"


def test_permissions_from_the_environment_are_told_in_its_words() -> None:
    error = refusal(Config.from_env, env(NAME="web", PERMISSIONS="660"))
    assert (error.key, error.allowed) == ("HARDCAP_PERMISSIONS", "0o600, or more with HARDCAP_DIR given")


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("LIMT", "HARDCAP_LIMIT"),
        ("LIMITS", "HARDCAP_LIMIT"),
        ("limit", "HARDCAP_LIMIT"),
        ("DIRECTORY", "HARDCAP_DIR"),
        ("MAX_PROCESES", "HARDCAP_MAX_PROCESSES"),
        ("RETRYAFTER", "HARDCAP_RETRY_AFTER"),
        ("SERVICE", None),
        ("XYZZY", None),
        ("", None),
    ],
)
def test_an_unknown_variable_is_named_with_what_was_meant(unknown: str, meant: str | None) -> None:
    error = refusal(Config.from_env, env(NAME="web", **{unknown: "1"}))
    known, _, hint = error.allowed.partition("; did you mean ")
    assert error.value == f"HARDCAP_{unknown}"
    assert known.split(", ") == [f"HARDCAP_{variable}" for variable in KNOWN]
    assert hint == (meant or "")


def test_all_unknown_variables_are_named_at_once() -> None:
    error = refusal(Config.from_env, env(NAME="web", LIMT="1", XYZZY="2", MODUS="strict"))
    assert error.value == "HARDCAP_LIMT, HARDCAP_XYZZY, HARDCAP_MODUS"
    assert error.allowed.endswith("did you mean HARDCAP_LIMIT, HARDCAP_MODE")


def test_what_kubernetes_injects_is_left_alone() -> None:
    injected = env(
        SERVICE_HOST="10.0.0.1",
        SERVICE_PORT="80",
        SERVICE_PORT_HTTP="80",
        PORT="tcp://10.0.0.1:80",
        PORT_80_TCP="tcp://10.0.0.1:80",
        PORT_80_TCP_ADDR="10.0.0.1",
        PORT_80_TCP_PROTO="",
        API_SERVICE_HOST="10.0.0.2",
        API_SERVICE_PORT_HTTP="80",
        API_PORT="tcp://10.0.0.2:80",
        API_PORT_80_TCP_ADDR="10.0.0.2",
    )
    assert Config.from_env(env(NAME="web") | injected) == Config("web")


@pytest.mark.parametrize("variable", ["TIMEOUT", "MAX_WAITING", "STATUS", "RETRY_AFTER"])
def test_the_middlewares_variables_are_checked_too(variable: str) -> None:
    """Whoever reads the configuration first, before there is a middleware or a file."""
    assert refusal(Config.from_env, env(NAME="web", **{variable: "x"})).key == f"HARDCAP_{variable}"


def test_another_prefix_is_another_set_of_variables() -> None:
    environ = env(NAME="other", XYZZY="1") | {"CAP_NAME": "web", "CAP_LIMIT": "3", "CAP_SERVICE_HOST": "10.0.0.1"}
    assert Config.from_env(environ, prefix="CAP_") == Config("web", limit=3)
    assert refusal(Config.from_env, {"CAP_LIMIT": "3"}, prefix="CAP_").key == "CAP_NAME"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [variable for variable in os.environ if variable.startswith("HARDCAP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HARDCAP_NAME", "web")
    monkeypatch.setenv("HARDCAP_TIMEOUT", "2")
    assert Config.from_env() == Config("web", middleware=MiddlewareSettings(timeout=2.0))
