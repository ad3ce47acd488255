"""`Config.from_toml`, and the environment over a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hardcap.config import Config, MiddlewareSettings
from hardcap.settings import SETTINGS
from tests.support.settings import env, refusal, toml

EVERYTHING = """
title = "of somebody else"

[hardcap]
name = "web"
limits = { requests = 10, tokens = 8192 }
mode = "approximate"
max_processes = 16
directory = "/srv/caps"
permissions = 0o660
backend = "atomics"
enforce = false
timeout = 1
status = 429
retry_after = 0.5
exempt = ["/ping", "/a,b"]
"""

FULL = Config(
    "web",
    limits={"requests": 10, "tokens": 8192},
    mode="approximate",
    max_processes=16,
    directory="/srv/caps",
    permissions=0o660,
    backend="atomics",
    enforce=False,
    middleware=MiddlewareSettings(timeout=1, status=429, retry_after=0.5, exempt=("/ping", "/a,b")),
)


def test_a_file_gives_every_argument(tmp_path: Path) -> None:
    assert Config.from_toml(toml(tmp_path, EVERYTHING)) == FULL
    assert Config.from_toml(str(tmp_path / "hardcap.toml")) == FULL


def test_a_pyproject_has_the_table_of_a_tool(tmp_path: Path) -> None:
    text = '[hardcap]\nname = "wrong"\n[tool.hardcap]\nname = "web"\nlimit = 3\n'
    assert Config.from_toml(toml(tmp_path, text, "pyproject.toml")) == Config("web", limit=3)
    assert Config.from_toml(toml(tmp_path, text, "my-pyproject.toml")).name == "wrong"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("hardcap.toml", "", "a file with a table [hardcap]"),
        ("hardcap.toml", '[tool.hardcap]\nname = "web"', "a file with a table [hardcap]"),
        ("hardcap.toml", "hardcap = 3", "a file with a table [hardcap]"),
        ("hardcap.toml", '[[hardcap]]\nname = "web"', "a file with a table [hardcap]"),
        ("pyproject.toml", '[hardcap]\nname = "web"', "a file with a table [tool.hardcap]"),
        ("pyproject.toml", "tool = 3", "a file with a table [tool.hardcap]"),
        ("hardcap.toml", "[hardcap", "valid TOML: "),
        ("hardcap.toml", '[hardcap]\nname = "web"\nname = "web"', "valid TOML: "),
        ("hardcap.toml", "[hardcap]\nlimit = 010", "valid TOML: "),
        ("hardcap.toml", f"[hardcap]\nlimit = {'[' * 5000}", "valid TOML: "),
    ],
)
@pytest.mark.parametrize("through", ["from_toml", "from_env"])
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, name: str, text: str, allowed: str, through: str) -> None:
    path = str(toml(tmp_path, text, name))
    error = refusal(Config.from_toml, path) if through == "from_toml" else refusal(Config.from_env, env(CONFIG=path))
    assert (error.key, error.value) == ("configuration file", path)
    assert error.allowed.startswith(allowed)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hardcap.toml"
    path.write_bytes(b'[hardcap]\nname = "\xff"')
    assert refusal(Config.from_toml, path).value == str(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path, why in [("missing", "No such file"), ("loop", "symbolic links"), (".", "Is a directory")]:
        error = refusal(Config.from_toml, tmp_path / path)
        assert (error.key, error.value) == ("configuration file", str(tmp_path / path))
        assert why in error.allowed


@pytest.mark.parametrize("path", ["", 3, b"hardcap.toml", None, "a\0b"])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    assert refusal(Config.from_toml, path).value == path


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ('limit = "10"', "limit", "10"),
        ("limit = 10.0", "limit", 10.0),
        ("limit = true", "limit", True),
        ("limit = nan", "limit", None),
        ("limits = 10", "limits", 10),
        ("limits = {}", "limits", {}),
        ('limits = { requests = "1" }', "limits['requests']", "1"),
        ("mode = 1979-05-27", "mode", None),
        ('max_processes = "4"', "max_processes", "4"),
        ("directory = 3", "directory", 3),
        ('permissions = "660"', "permissions", "660"),
        ("permissions = 660", "permissions", 660),
        ('enforce = "true"', "enforce", "true"),
        ("name = 3", "name", 3),
        ('name = ""', "name", ""),
        ("limit = 1\nlimits = { requests = 1 }", "limit", 1),
        ("permissions = 0o660", "permissions", "0o660"),
        ("limit = 1", "name", None),
    ],
)
def test_a_wrong_value_in_a_file_is_named_with_the_file(tmp_path: Path, line: str, key: str, value: object) -> None:
    named = "name" in (line.split(" ")[0], key)
    path = toml(tmp_path, f"[hardcap]\n{line}\n" + ("" if named else 'name = "web"\n'))
    error = refusal(Config.from_toml, path)
    field, bracket, resource = key.partition("[")
    assert error.key == f"{field} in '{path}'{bracket}{resource}"
    assert value is None or error.value == value


def test_a_wrong_resource_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, '[hardcap]\nname = "web"\nlimits = { Requests = 1 }')
    assert refusal(Config.from_toml, path).key == f"resource name in limits in '{path}'"


@pytest.mark.parametrize(
    ("key", "meant"), [("limitt", "limit"), ("dir", "directory"), ("Mode", "mode"), ("config", None), ("xyzzy", None)]
)
def test_an_unknown_key_is_named_with_what_was_meant(tmp_path: Path, key: str, meant: str | None) -> None:
    path = toml(tmp_path, f'[hardcap]\nname = "web"\n{key} = 1')
    error = refusal(Config.from_toml, path)
    known, _, hint = error.allowed.partition("; did you mean ")
    assert (error.key, error.value, hint) == (f"key in '{path}'", key, meant or "")
    assert sorted(known.split(", ")) == sorted(SETTINGS)


def test_the_environment_overrides_the_file_it_names(tmp_path: Path) -> None:
    path = str(toml(tmp_path, EVERYTHING))
    config = Config.from_env(env(CONFIG=path, MODE="strict", MAX_PROCESSES="4"))
    expected = dataclasses.replace(FULL, mode="strict", max_processes=4)
    assert config == expected


@pytest.mark.parametrize("line", ["limit = 1", "limits = { bytes = 1 }", "limit = 1\nlimits = { bytes = 1 }"])
@pytest.mark.parametrize(("text", "expected"), [("10", {"limit": 10}), ("tokens=5", {"limits": {"tokens": 5}})])
def test_a_limit_in_the_environment_overrides_both_keys_of_a_file(
    tmp_path: Path, line: str, text: str, expected: Any
) -> None:
    path = str(toml(tmp_path, f'[hardcap]\nname = "web"\n{line}'))
    assert Config.from_env(env(CONFIG=path, LIMIT=text)) == Config("web", **expected)


def test_a_name_may_come_from_either(tmp_path: Path) -> None:
    path = str(toml(tmp_path, "[hardcap]\nlimit = 3"))
    assert Config.from_env(env(CONFIG=path, NAME="web")) == Config("web", limit=3)
    assert refusal(Config.from_env, env(CONFIG=path)).key == "HARDCAP_NAME"


def test_each_value_is_named_after_the_place_it_came_from(tmp_path: Path) -> None:
    path = str(toml(tmp_path, "[hardcap]\nlimit = -1\nmax_processes = 0"))
    assert refusal(Config.from_env, env(CONFIG=path, NAME="web", LIMIT="x")).key == "HARDCAP_LIMIT"
    assert refusal(Config.from_env, env(CONFIG=path, NAME="web")).key == f"limit in '{path}'"
    assert refusal(Config.from_env, env(CONFIG=path, NAME="web", LIMIT="1")).key == f"max_processes in '{path}'"


@pytest.mark.parametrize("slip", [660, 600])
def test_permissions_written_without_their_prefix_are_told_how(tmp_path: Path, slip: int) -> None:
    path = toml(tmp_path, f'[hardcap]\nname = "web"\ndirectory = "/x"\npermissions = {slip}')
    error = refusal(Config.from_toml, path)
    assert error.value == slip
    assert error.allowed.endswith(f": write 0o{slip}")
