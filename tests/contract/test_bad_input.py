"""Bad input: an error that names the value and what is allowed, and nothing changed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import hardcap
from tests.contract.conftest import Open
from tests.support.views import nothing_changes

NO_AMOUNT = [-1, True, False, 1.0, math.nan, 2**31, "1", None]
each_call = pytest.mark.parametrize("call", ["reserve", "release", "admit"])


def refuses(limiter: hardcap.Limiter, call: str, *args: object, **kwargs: object) -> str:
    """The text of the error it raises, with something held and nothing of it changed."""
    assert limiter.reserve(1, tokens=1)
    with nothing_changes(limiter), pytest.raises(hardcap.ConfigError, match="allowed: ") as caught:
        getattr(limiter, call)(*args, **kwargs)
    return str(caught.value)


@each_call
@pytest.mark.parametrize("bad", [0, *NO_AMOUNT])
def test_an_amount_by_position(pair: hardcap.Limiter, call: str, bad: object) -> None:
    assert f"is {bad!r}, allowed: an integer from 1 to 2147483647" in refuses(pair, call, bad)


@each_call
@pytest.mark.parametrize("bad", NO_AMOUNT)
def test_an_amount_by_name(pair: hardcap.Limiter, call: str, bad: object) -> None:
    text = refuses(pair, call, requests=1, tokens=bad)
    assert text == f"tokens is {bad!r}, allowed: an integer from 0 to 2147483647"


@each_call
def test_all_amounts_zero(pair: hardcap.Limiter, call: str) -> None:
    text = refuses(pair, call, requests=0, tokens=0)
    assert text == "amount is {'requests': 0, 'tokens': 0}, allowed: at least one from 1 to 2147483647"


@each_call
@pytest.mark.parametrize("unknown", ["bytes", "amount", "Requests", "requests "])
def test_an_unknown_resource(pair: hardcap.Limiter, call: str, unknown: str) -> None:
    assert refuses(pair, call, **{unknown: 1}) == f"resource is {unknown!r}, allowed: requests, tokens"
    pair.release(1, tokens=1)
    assert unknown in refuses(pair, call, 1, **{unknown: 1})


@each_call
def test_one_resource_by_position_and_by_name(pair: hardcap.Limiter, call: str) -> None:
    assert "requests is (1, 1), allowed: by position or by name" in refuses(pair, call, 1, requests=1)


@pytest.mark.parametrize("call", ["reserve", "admit"])
@pytest.mark.parametrize("bad", NO_AMOUNT)
def test_headroom(pair: hardcap.Limiter, call: str, bad: object) -> None:
    assert refuses(pair, call, headroom=bad) == f"headroom is {bad!r}, allowed: an integer from 0 to 2147483647"


@pytest.mark.parametrize("bad", [value for value in NO_AMOUNT if value is not None])
def test_a_new_limit(pair: hardcap.Limiter, bad: object) -> None:
    assert refuses(pair, "set_limit", bad) == f"requests is {bad!r}, allowed: an integer from 0 to 2147483647"
    pair.release(1, tokens=1)
    assert f"tokens is {bad!r}" in refuses(pair, "set_limit", requests=1, tokens=bad)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((), {"bytes": 1}), ((1,), {"bytes": 1}), ((1,), {"requests": 2})]
)
def test_new_limits_of_no_resource(pair: hardcap.Limiter, args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    refuses(pair, "set_limit", *args, **kwargs)


@pytest.mark.parametrize("bad", [-1, -0.1, True, math.nan, math.inf, "1", [1]])
def test_timeout(pair: hardcap.Limiter, bad: object) -> None:
    assert f"timeout is {bad!r}, allowed: seconds" in refuses(pair, "admit", timeout=bad)


@pytest.mark.parametrize(
    ("setting", "bad"),
    [
        *(("limit", value) for value in (-1, 2**31, True, 1.0, math.nan, "1")),
        *(
            ("limits", value)
            for value in ({}, {"requests": -1}, {"R": 1}, {"amount": 1}, dict.fromkeys("abcde", 1), [1])
        ),
        *(("max_processes", value) for value in (0, -1, 4097, True, 1.0)),
        *(("permissions", value) for value in (0o700, 0o400, 0o6600, "600")),
        ("mode", "loose"),
        ("backend", "hope"),
        ("enforce", 1),
    ],
)
def test_a_setting_is_refused_before_any_file_is_touched(
    opened: Open, tmp_path: Path, setting: str, bad: object
) -> None:
    limit = {} if setting == "limits" else {"limit": 1}
    with pytest.raises(hardcap.ConfigError, match=rf"{re.escape(setting)}.* is .*, allowed: "):
        opened(directory=tmp_path / "absent", **limit | {setting: bad})
    assert list(tmp_path.iterdir()) == []


def test_nothing_beside_a_config(name: str, tmp_path: Path) -> None:
    config = hardcap.Config(name, limit=1, directory=tmp_path)
    with pytest.raises(hardcap.ConfigError, match="limit is 2, allowed: nothing beside a Config"):
        hardcap.open(config, limit=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "argument", "where"),
    [
        ("reserve", "timeout", "admit"),
        ("reserve", "enforce", "hardcap.open"),
        ("admit", "enforce", "hardcap.open"),
        ("release", "headroom", "reserve"),
    ],
)
def test_an_argument_of_another_call_is_told_where_it_belongs(
    limiter: hardcap.Limiter, call: str, argument: str, where: str
) -> None:
    with pytest.raises(ValueError, match=f"argument is '{argument}', allowed: in {where}"):
        getattr(limiter, call)(**{argument: 1})


def test_without_a_limit_the_remedy_is_named(name: str, segment_dir: Path) -> None:
    with pytest.raises(hardcap.ConfigError, match=r"limit= or limits= \(HARDCAP_LIMIT for Config.from_env\)"):
        hardcap.open(name, directory=segment_dir)


class Liar(int):
    """Says that it is another number."""

    def __int__(self) -> int:
        return -5

    def __index__(self) -> int:
        return 2**33

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __le__


def test_an_int_that_lies_is_taken_for_what_it_is(limiter: hardcap.Limiter) -> None:
    """What is compared is what is counted, and stored as the limit."""
    assert limiter.reserve(Liar(2))
    assert (limiter.held, limiter.in_flight) == (2, 2)
    limiter.release(Liar(2))
    assert limiter.in_flight == 0
    for wrong in (Liar(-3), Liar(2**31)):
        with pytest.raises(ValueError, match="allowed: an integer from 1"):
            limiter.reserve(wrong)
        with pytest.raises(ValueError, match="allowed: an integer from 0"):
            limiter.set_limit(wrong)
    limiter.set_limit(Liar(2))
    assert limiter.limit == 2
