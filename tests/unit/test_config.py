"""What each argument of `Config` may be, and what each refusal says."""

from __future__ import annotations

import dataclasses
import math
import pickle
from pathlib import Path

import pytest

from hardcap.config import Config, MiddlewareSettings, Mode
from hardcap.layout import MAX_LIMIT, MAX_SLOTS
from hardcap.settings import SETTINGS, check_integer
from tests.support.settings import refusal

INTEGER_LIMIT = f"an integer from 0 to {MAX_LIMIT}"


class OnlyInt(int):
    """Stands for the integers of other libraries and for enumerations."""


def test_a_name_alone_leaves_everything_else_open() -> None:
    config = Config("web")
    rest = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name != "name"}
    assert config.name == "web"
    assert rest.pop("middleware") == MiddlewareSettings()
    assert set(rest.values()) == {None}


TAKEN: list[tuple[str, object, object]] = [
    ("name", "a", "a"),
    ("name", "A" * 64, "A" * 64),
    ("name", "_under.score-and-9", "_under.score-and-9"),
    ("name", "0", "0"),
    ("limit", 0, 0),
    ("limit", 2**31 - 1, 2**31 - 1),
    ("limit", OnlyInt(7), 7),
    ("limits", {"a" * 32: 0}, {"a" * 32: 0}),
    ("limits", {"z9_": 2**31 - 1, "b": 1, "c": 2, "d": 3}, {"z9_": 2**31 - 1, "b": 1, "c": 2, "d": 3}),
    ("mode", "strict", Mode.strict),
    ("mode", "approximate", Mode.approximate),
    ("mode", Mode.approximate, Mode.approximate),
    ("max_processes", 1, 1),
    ("max_processes", MAX_SLOTS, MAX_SLOTS),
    ("directory", "relative/kept", "relative/kept"),
    ("directory", Path("/var/run"), Path("/var/run")),
    ("permissions", 0o600, 0o600),
    ("backend", "auto", "auto"),
    ("backend", "native", "native"),
    ("backend", "atomics", "atomics"),
    ("enforce", True, True),
    ("enforce", False, False),
]


@pytest.mark.parametrize(("key", "value", "normal"), TAKEN)
def test_an_argument_is_taken_and_normalised(key: str, value: object, normal: object) -> None:
    config = Config(**{"name": "web", key: value})  # type: ignore[arg-type]
    assert getattr(config, key) == normal


@pytest.mark.parametrize("mode", ["strict", Mode.strict])
def test_a_mode_is_always_read_as_a_mode(mode: Mode | str) -> None:
    assert type(Config("web", mode=mode).mode) is Mode


def test_an_integer_of_a_subclass_is_read_as_a_plain_one() -> None:
    assert type(Config("web", limit=OnlyInt(7)).limit) is int


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o660, 0o644, 0o666, 0o606])
def test_permissions_beyond_the_owner_are_taken_with_a_directory(permissions: int) -> None:
    assert Config("web", permissions=permissions, directory="/srv/caps").permissions == permissions


NO_LIMIT = [True, False, 1.0, math.nan, math.inf, "10", b"10", -1, 2**31, 2**64, 10**400, [10], 1j]
NO_NAME = ["", ".a", "-a", "a/b", "a b", "a\n", "\na", "é", "٣", "a\0", "a" * 65, "a" * 255, b"web", 3, True]
NO_RESOURCE = ["", "9a", "_a", "Requests", "a-b", "a b", "a\n", "é", "a" * 33, "amount", "headroom", "timeout", 3]

REFUSED: list[tuple[str, object]] = [
    *(("name", value) for value in [*NO_NAME, None]),
    *(("limit", value) for value in [*NO_LIMIT, {"requests": 1}]),
    *(("limits", value) for value in [{}, [], 10, "requests=10", [("requests", 10)], dict.fromkeys("abcde", 1)]),
    *(("mode", value) for value in ["", "Strict", "exact", "strict ", "strict\n", 1, True, ["strict"]]),
    *(("max_processes", value) for value in [0, -1, MAX_SLOTS + 1, True, 4.0, "4"]),
    *(("directory", value) for value in ["", b"/tmp", "a\0b", 3, ["/tmp"]]),
    *(("permissions", value) for value in [True, "660", 384.0, [0o600]]),
    *(("backend", value) for value in ["", "Auto", "c", "native\n", None.__class__, 1]),
    *(("enforce", value) for value in ["true", 1, 0, "", 1.0]),
]


@pytest.mark.parametrize(("key", "value"), REFUSED)
def test_a_wrong_argument_is_refused_by_name_and_value(key: str, value: object) -> None:
    error = refusal(Config, **{"name": "web", key: value})
    assert (error.key, error.value) == (key, value)


@pytest.mark.parametrize("value", NO_LIMIT)
def test_a_wrong_limit_of_a_resource_names_the_resource(value: object) -> None:
    error = refusal(Config, "web", limits={"requests": 1, "tokens": value})
    assert (error.key, error.value, error.allowed) == ("limits['tokens']", value, INTEGER_LIMIT)


@pytest.mark.parametrize("resource", NO_RESOURCE)
def test_a_wrong_resource_name_is_refused(resource: object) -> None:
    error = refusal(Config, "web", limits={"requests": 1, resource: 1})
    assert (error.key, error.value) == ("resource name in limits", resource)
    assert error.allowed == "1-32 of [a-z0-9_], starting with a letter, none of amount, headroom, timeout"


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("limit", f"{INTEGER_LIMIT}, or for each resource its limit, such as requests=10,tokens=8192"),
        ("limits", "1 to 4 resources, such as {'requests': 10, 'tokens': 8192}"),
        ("mode", "strict, approximate"),
        ("max_processes", f"an integer from 1 to {MAX_SLOTS}"),
        ("directory", "a path"),
        ("permissions", "octal 600 to 666, read and write bits only, always the owner's"),
        ("backend", "auto, native, atomics"),
        ("enforce", "true or false (in the environment also 1, 0, yes, no, on, off)"),
    ],
)
def test_a_refusal_says_what_is_allowed(key: str, allowed: str) -> None:
    assert refusal(Config, **{"name": "web", key: 1.5}).allowed == allowed


def test_a_refused_name_says_what_is_allowed() -> None:
    assert refusal(Config, "").allowed == "1-64 of [A-Za-z0-9._-], not starting with a dot or dash"


@pytest.mark.parametrize("permissions", [0, 0o400, 0o200, 0o060, 0o700, 0o611, 0o755, 0o4600, 0o1600, 0o10600, -1])
def test_permissions_other_than_read_and_write_are_refused_in_octal(permissions: int) -> None:
    error = refusal(Config, "web", permissions=permissions, directory="/srv/caps")
    assert (error.key, error.value) == ("permissions", oct(permissions))


def test_permissions_beyond_the_owner_need_a_directory() -> None:
    error = refusal(Config, "web", permissions=0o660)
    assert (error.key, error.value, error.allowed) == ("permissions", "0o660", "0o600, or more with directory given")


def test_limit_and_limits_are_not_both_given() -> None:
    error = refusal(Config, "web", limit=10, limits={"requests": 10})
    assert (error.key, error.value, error.allowed) == ("limit", 10, "only one of limit and limits")


def test_the_check_of_an_integer_is_there_for_others() -> None:
    assert check_integer("amount", 3, 1, 3) == 3
    error = refusal(check_integer, "amount", 4, 1, 3)
    assert (error.key, error.value, error.allowed) == ("amount", 4, "an integer from 1 to 3")


def test_a_refusal_survives_a_pickle() -> None:
    error = refusal(Config, "web", limit=-1)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_field_is_one_row_of_the_table() -> None:
    keys = [field.name for cls in (Config, MiddlewareSettings) for field in dataclasses.fields(cls)]
    assert sorted(keys) == sorted([*SETTINGS, "middleware"])
