"""The error tree: what is a kind of what, what each one says, and that each survives a pickle."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from hardcap import errors
from hardcap.errors import (
    BackendUnavailable,
    CapExceeded,
    ConfigError,
    HardcapError,
    LayoutMismatch,
    ModeMismatch,
    ReleaseError,
    SegmentClosed,
    SegmentError,
    SegmentRetired,
    SlotsExhausted,
)

SEGMENT_ERRORS = (
    SegmentError,
    LayoutMismatch,
    ModeMismatch,
    SlotsExhausted,
    SegmentRetired,
    SegmentClosed,
    BackendUnavailable,
)

Example = tuple[HardcapError, dict[str, object], str]


def of_a_segment(kind: type[SegmentError]) -> Example:
    words = ("/x/web", "mode strict", "mode approximate", "stop its users first")
    text = "segment '/x/web': found mode strict, expected mode approximate; stop its users first"
    return kind(*words), dict(zip(("segment", "found", "expected", "remedy"), words, strict=True)), text


EXAMPLES: list[Example] = [
    (
        CapExceeded("web", "requests", 64, 64, 1),
        {"name": "web", "resource": "requests", "limit": 64, "in_flight": 64, "requested": 1, "headroom": 0},
        "limiter 'web' is full: 64 of 64 requests in flight",
    ),
    (
        CapExceeded("llm", "tokens", 8192, 8000, 512),
        {"name": "llm", "resource": "tokens", "limit": 8192, "in_flight": 8000, "requested": 512, "headroom": 0},
        "limiter 'llm' is full: 8000 of 8192 tokens in flight, 512 more requested",
    ),
    (
        ReleaseError("web", "requests", 1, 2),
        {"name": "web", "resource": "requests", "held": 1, "requested": 2},
        "limiter 'web' cannot release 2 requests: this limiter holds 1, release each reservation once",
    ),
    (
        ConfigError("limit", -1, "0 or more"),
        {"key": "limit", "value": -1, "allowed": "0 or more"},
        "limit is -1, allowed: 0 or more",
    ),
    *(of_a_segment(kind) for kind in SEGMENT_ERRORS),
    (
        SegmentError("/x", "a directory", "a file"),
        {"segment": "/x", "found": "a directory", "expected": "a file", "remedy": ""},
        "segment '/x': found a directory, expected a file",
    ),
]

by_kind = pytest.mark.parametrize(
    ("error", "data", "text"), EXAMPLES, ids=[f"{i}-{type(example[0]).__name__}" for i, example in enumerate(EXAMPLES)]
)


def test_every_error_has_an_example() -> None:
    public = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}
    assert {type(error) for error, _, _ in EXAMPLES} == public - {HardcapError}


@by_kind
def test_an_error_carries_its_data_and_says_it(error: HardcapError, data: dict[str, object], text: str) -> None:
    assert vars(error) == data
    assert str(error) == text
    assert error.args == tuple(data.values())


@by_kind
def test_a_message_is_in_the_house_style(error: HardcapError, data: dict[str, object], text: str) -> None:
    assert text[0].islower()
    assert not text.endswith(".")
    assert "\n" not in text


@by_kind
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_a_pickle(error: HardcapError, data: dict[str, object], text: str, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is type(error)
    assert vars(back) == data
    assert str(back) == text


@by_kind
def test_an_error_survives_a_copy(error: HardcapError, data: dict[str, object], text: str) -> None:
    assert vars(copy.deepcopy(error)) == data


@pytest.mark.parametrize("kind", [CapExceeded, ReleaseError, ConfigError, SegmentError])
def test_every_branch_has_the_one_base(kind: type[Exception]) -> None:
    assert kind.__bases__[0] is HardcapError


@pytest.mark.parametrize("kind", SEGMENT_ERRORS[1:])
def test_whatever_is_wrong_with_a_segment_is_a_segment_error(kind: type[Exception]) -> None:
    assert kind.__bases__ == (SegmentError,)


@pytest.mark.parametrize("kind", [ReleaseError, ConfigError])
def test_a_wrong_argument_is_also_a_value_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize("kind", [CapExceeded, *SEGMENT_ERRORS])
def test_a_full_or_broken_cap_is_no_value_error(kind: type[Exception]) -> None:
    assert not issubclass(kind, ValueError)


def test_a_value_that_cannot_be_written_out_is_told_by_its_size() -> None:
    assert str(errors.ConfigError("limit", 10**5000, "less")) == "limit is an int of 16610 bits, allowed: less"
