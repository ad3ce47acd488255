"""Strict mode's steps on words in memory: their order, and a rival at the one place where it matters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from hardcap import layout
from hardcap.admission import ADMITTED
from hardcap.layout import HIGH_ONE, LOW, pack
from hardcap.ownership import claim
from hardcap.strict import Strict
from tests.support.memory import WRITES, Memory, memory

REQUESTS, TOKENS = 0, 1
ONE = ((REQUESTS, 1),)
BOTH = ((REQUESTS, 1), (TOKENS, 4))


@pytest.fixture
def made() -> Iterator[Memory]:
    with memory("strict", {"requests": 3, "tokens": 9}) as made:
        yield made


def owner(made: Memory) -> Strict:
    process = made.process()
    return Strict(process, claim(process))


@pytest.fixture
def mine(made: Memory) -> Strict:
    return owner(made)


@pytest.fixture
def rival(mine: Strict, made: Memory) -> Strict:
    return owner(made)


def writes(made: Memory, action: Callable[[], object]) -> list[str]:
    """The words that it writes, in order, by name: those that count units."""
    names = {layout.global_word(0): "requests", layout.global_word(1): "tokens"}
    names |= {layout.slot_word(0, 0): "own requests", layout.slot_word(0, 1): "own tokens"}
    seen: list[str] = []

    def watch(kind: str, index: int) -> None:
        if kind in WRITES and index in names:
            seen.append(names[index])

    made.words.watch = watch
    action()
    made.words.undisturbed()
    return seen


def test_the_order_of_the_steps(made: Memory, mine: Strict) -> None:
    """Announced before it is taken, confirmed when all is taken; marked before it goes back, cleared after it."""
    announced_and_taken = ["own requests", "requests", "own tokens", "tokens"]
    assert writes(made, lambda: mine.reserve(BOTH, 0)) == [*announced_and_taken, "own requests", "own tokens"]
    marked = ["own requests", "own tokens"]
    given_back = ["requests", "own requests", "tokens", "own tokens"]
    assert writes(made, lambda: mine.release(BOTH)) == [*marked, *given_back]


def test_a_refusal_on_sight_writes_nothing(made: Memory, mine: Strict) -> None:
    assert writes(made, lambda: mine.reserve(((REQUESTS, 4),), 0)) == []


def test_every_change_of_the_count_moves_the_version(made: Memory, mine: Strict) -> None:
    mine.reserve(BOTH, 0)
    assert (made.version(REQUESTS), made.version(TOKENS)) == (1, 1)
    mine.release(BOTH)
    assert (made.version(REQUESTS), made.version(TOKENS)) == (2, 2)
    mine.reserve(((REQUESTS, 1), (TOKENS, 10)), 0)
    assert (made.version(REQUESTS), made.version(TOKENS)) == (4, 2)


def test_a_version_wraps(made: Memory, mine: Strict) -> None:
    made.words.store(layout.global_word(0), pack(0, LOW))
    assert mine.reserve(ONE, 0) == ADMITTED
    assert (made.count(), made.version()) == (1, 0)
    made.words.store(layout.global_word(0), pack(1, LOW))
    mine.release(ONE)
    assert (made.count(), made.version()) == (0, 0)


def before_my_swap(made: Memory, action: Callable[[], object], index: int = REQUESTS) -> None:
    made.words.before("compare_exchange", layout.global_word(index), action)


def test_a_rival_takes_the_last_unit_before_the_swap(made: Memory, mine: Strict, rival: Strict) -> None:
    mine.reserve(((REQUESTS, 2),), 0)
    before_my_swap(made, lambda: rival.reserve(ONE, 0))
    assert mine.reserve(ONE, 0) == REQUESTS
    assert (made.count(), made.held(0), made.pending(0), made.held(1)) == (3, 2, 0, 1)


def test_a_rival_takes_another_unit_before_the_swap(made: Memory, mine: Strict, rival: Strict) -> None:
    before_my_swap(made, lambda: rival.reserve(ONE, 0))
    assert mine.reserve(ONE, 0) == ADMITTED
    assert (made.count(), made.held(0), made.pending(0), made.held(1)) == (2, 1, 0, 1)


def test_a_rival_that_comes_and_goes_before_the_swap(made: Memory, mine: Strict, rival: Strict) -> None:
    def come_and_go() -> None:
        rival.reserve(((REQUESTS, 3),), 0)
        rival.release(((REQUESTS, 3),))

    before_my_swap(made, come_and_go)
    assert mine.reserve(ONE, 0) == ADMITTED
    assert (made.count(), made.version()) == (1, 3)


def test_what_was_taken_first_goes_back_when_the_second_is_refused(made: Memory, mine: Strict, rival: Strict) -> None:
    before_my_swap(made, lambda: rival.reserve(((TOKENS, 6),), 0), TOKENS)
    assert mine.reserve(BOTH, 0) == TOKENS
    assert (made.count(REQUESTS), made.count(TOKENS)) == (0, 6)
    assert [made.words.load(layout.slot_word(0, index)) for index in (REQUESTS, TOKENS)] == [0, 0]


def test_a_rival_may_see_one_resource_briefly_busier(made: Memory, mine: Strict, rival: Strict) -> None:
    """That is tolerated; the rival's refusal is what it could have been a moment later."""
    seen: list[int] = []
    mine.reserve(((REQUESTS, 2),), 0)
    made.words.before("load", layout.global_word(TOKENS), lambda: seen.append(rival.reserve(ONE, 0)))
    assert mine.reserve(((REQUESTS, 1), (TOKENS, 10)), 0) == TOKENS
    assert seen == [REQUESTS]
    assert rival.reserve(ONE, 0) == ADMITTED


def lifted_above(lower: Callable[[Strict], object]) -> list[int]:
    """The accesses of a reservation before which a limit of 0 came into force, and which still lifted the count."""
    found: list[int] = []
    for number in itertools.count():
        with memory("strict", {"requests": 3}) as made:
            mine = owner(made)
            counts: list[int] = []

            def lower_and_count(made: Memory = made, mine: Strict = mine, counts: list[int] = counts) -> None:
                lower(mine)
                counts.append(made.count())

            made.words.before_access(number, lower_and_count)
            admitted = mine.reserve(ONE, 0) == ADMITTED
            if made.words.undisturbed():
                break
            found += [number] if made.count() > counts[0] else []
            assert (made.held(0), made.pending(0)) == (int(admitted), 0)
    return found


def test_a_limit_lowered_at_any_moment() -> None:
    """I2: once ``set_limits`` has returned, nothing lifts the count above the new limit."""
    assert lifted_above(lambda mine: mine.segment.set_limits({REQUESTS: 0})) == []


def test_a_limit_lowered_without_moving_the_version_is_seen_by_that_test() -> None:
    assert lifted_above(lambda mine: mine.segment.words.store(layout.limit_word(REQUESTS), 0)) != []


def test_a_limit_raised_between_the_two_loads(made: Memory, mine: Strict) -> None:
    mine.reserve(((REQUESTS, 3),), 0)
    made.words.before("load", layout.limit_word(REQUESTS), lambda: mine.segment.set_limits({REQUESTS: 4}))
    assert mine.reserve(ONE, 0) == ADMITTED
    assert made.count() == 4


@pytest.mark.parametrize(
    ("own", "units", "fits"),
    [
        (pack(LOW - 3, 0), 3, True),
        (pack(LOW - 3, 0), 4, False),
        (pack(0, LOW - 3), 3, True),
        (pack(0, LOW - 3), 4, False),
        (pack(2**31, 2**31 - 2), 1, True),
        (pack(2**31, 2**31 - 2), 2, False),
    ],
)
def test_nothing_overflows_a_slot_word(made: Memory, mine: Strict, own: int, units: int, fits: bool) -> None:
    made.words.store(layout.limit_word(0), layout.MAX_LIMIT)
    made.words.store(layout.slot_word(0, 0), own)
    assert mine.reserve(((REQUESTS, units),), 0) == (ADMITTED if fits else REQUESTS)
    assert made.words.load(layout.slot_word(0, 0)) == own + (units if fits else 0)
    assert made.count() == (units if fits else 0)


@pytest.mark.parametrize("limit", [layout.MAX_LIMIT + 1, 2**63, layout.U64])
def test_a_damaged_limit_admits_nobody(made: Memory, mine: Strict, limit: int) -> None:
    made.words.store(layout.limit_word(0), limit)
    assert mine.reserve(ONE, 0) == REQUESTS


def test_give_back_all_leaves_what_others_hold(made: Memory, mine: Strict, rival: Strict) -> None:
    mine.reserve(BOTH, 0)
    rival.reserve(BOTH, 0)
    mine.give_back_all()
    assert (made.count(REQUESTS), made.count(TOKENS)) == (1, 4)
    assert [made.words.load(layout.slot_word(0, index)) % HIGH_ONE for index in (0, 1)] == [0, 0]
    mine.give_back_all()
    assert made.count(REQUESTS) == 1
