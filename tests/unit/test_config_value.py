"""A `Config` is a value: limits that cannot change, pickles, copies, hashes, replacements."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from hardcap.config import Config, Limits, MiddlewareSettings, Mode
from tests.support.settings import refusal


def test_a_limit_is_the_limit_of_requests() -> None:
    config = Config("web", limit=10)
    assert config.limit == 10
    assert config.limits == {"requests": 10}


def test_limits_leave_limit_open() -> None:
    assert Config("web", limits={"requests": 10}).limit is None


def test_limits_keep_their_order_and_their_own_copy() -> None:
    given = {"tokens": 2, "requests": 1}
    config = Config("web", limits=given)
    given["requests"] = 99
    assert config.limits is not None
    assert list(config.limits.items()) == [("tokens", 2), ("requests", 1)]


def test_limits_behave_as_a_mapping() -> None:
    limits = Limits({"requests": 1, "tokens": 2})
    assert (limits["tokens"], limits.get("bytes"), len(limits), "tokens" in limits) == (2, None, 2, True)
    assert repr(limits) == "{'requests': 1, 'tokens': 2}"
    with pytest.raises(KeyError, match="bytes"):
        limits["bytes"]
    with pytest.raises(TypeError):
        limits["tokens"] = 3  # type: ignore[index]


def test_the_order_of_limits_is_part_of_what_they_are() -> None:
    forward, backward = Limits({"a": 1, "b": 2}), Limits({"b": 2, "a": 1})
    assert forward != backward
    assert forward == {"b": 2, "a": 1}
    assert forward == Limits({"a": 1, "b": 2})
    assert len({forward, backward, Limits({"a": 1, "b": 2})}) == 2
    assert forward != {"a": 1}
    assert forward != 3


FULL = Config(
    "web",
    limits={"requests": 10, "tokens": 8192},
    mode="approximate",
    max_processes=16,
    directory=Path("/srv/caps"),
    permissions=0o660,
    backend="atomics",
    enforce=False,
)
CONFIGS = [Config("web"), Config("web", limit=0), FULL]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_config_survives_a_pickle(config: Config, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(config, protocol))
    assert back == config
    assert hash(back) == hash(config)
    assert repr(back) == repr(config)
    assert type(back.mode) is type(config.mode)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_config_survives_a_copy(config: Config) -> None:
    assert copy.copy(config) == config == copy.deepcopy(config)


def test_equal_configs_are_one_key() -> None:
    assert len({Config("web", limit=1), Config("web", limit=1), Config("web", limit=2)}) == 2


@pytest.mark.parametrize("settings", [FULL, MiddlewareSettings()])
def test_settings_are_frozen(settings: Any) -> None:
    for field in dataclasses.fields(settings):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, field.name, None)
    assert not hasattr(settings, "__dict__")


@pytest.mark.parametrize("config", CONFIGS)
def test_replace_of_nothing_is_the_same(config: Config) -> None:
    assert dataclasses.replace(config) == config


def test_replace_changes_one_thing() -> None:
    config = dataclasses.replace(FULL, name="other", mode="strict")
    assert (config.name, config.mode, config.limits) == ("other", Mode.strict, FULL.limits)


def test_replace_of_limit_changes_limits_too() -> None:
    config = dataclasses.replace(Config("web", limit=10), limit=20)
    assert (config.limit, config.limits) == (20, {"requests": 20})


def test_replace_goes_from_limit_to_limits_and_back() -> None:
    several = dataclasses.replace(Config("web", limit=10), limit=None, limits={"tokens": 5})
    assert (several.limit, several.limits) == (None, {"tokens": 5})
    one = dataclasses.replace(several, limits=None, limit=7)
    assert (one.limit, one.limits) == (7, {"requests": 7})


@pytest.mark.parametrize(
    ("config", "change"), [(Config("web", limit=10), {"limits": {"requests": 5}}), (FULL, {"limit": 5})]
)
def test_replace_that_leaves_limit_and_limits_is_refused(config: Config, change: Any) -> None:
    assert refusal(dataclasses.replace, config, **change).key == "limit"


def test_replace_is_checked() -> None:
    assert refusal(dataclasses.replace, FULL, directory=None).key == "permissions"
