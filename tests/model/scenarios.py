"""Who does what on which segment, with how many deaths. Those in ``QUICK`` are explored by each run of the tests."""

from __future__ import annotations

from hardcap.config import Mode
from tests.model.actors import Actor, Step
from tests.model.memory import Scenario
from tests.model.steps import Adjust, Claim, Knows, Leave, Reap, Release, Reserve, SetLimit

ONE, TWO = ((0, 1),), ((0, 2),)
BOTH, OTHER = ((0, 1), (1, 2)), ((1, 1),)


def owner(slot: int, *steps: Step, resources: int = 1, forgets: bool = True) -> Actor:
    """It owns a slot from the start."""
    return Actor("ABC"[slot], steps, Knows(slot, (0,) * resources), forgets=forgets)


def newcomer(name: str, *steps: Step, mortal: bool = True, forgets: bool = True) -> Actor:
    """It has no slot."""
    return Actor(name, steps, Knows(None, (0,)), mortal=mortal, forgets=forgets)


def reaper(name: str = "reaper", resources: int = 1) -> Actor:
    """It sweeps whenever there is a dead owner."""
    return Actor(name, (Reap(),), Knows(None, (0,) * resources), resident=True)


def rounds(wanted: tuple[tuple[int, int], ...], number: int = 1) -> tuple[Step, ...]:
    return (Reserve(wanted), Release(wanted)) * number


VISIT = (Claim(), *rounds(ONE), Leave())
AGAIN = (Reserve(), Release(), Reserve(), Reserve())
LOWER, RAISE = SetLimit(((0, 1),)), SetLimit(((0, 3),))

STRICT = {
    "two owners": Scenario((owner(0, *rounds(ONE)), owner(1, *rounds(TWO)), reaper()), 2, deaths=2, reaper_deaths=1),
    "two owners, twice": Scenario(
        (owner(0, *rounds(ONE, 2)), owner(1, *rounds(TWO, 2)), reaper()), 2, deaths=2, reaper_deaths=1
    ),
    "two owners, tried twice": Scenario(
        (owner(0, *rounds(ONE)), owner(1, *rounds(TWO)), reaper()), 2, deaths=2, reaper_deaths=2, settle_tries=2
    ),
    "two dead, kept apart": Scenario(
        (owner(0, Reserve(TWO), Release()), owner(1, Reserve(TWO), Reserve()), reaper()),
        2,
        limits=(4,),
        deaths=2,
        reaper_deaths=1,
    ),
    "released twice": Scenario(
        (owner(0, *rounds(ONE), Release()), owner(1, *rounds(ONE), Release()), reaper()), 2, deaths=1
    ),
    "three owners": Scenario((owner(0, *rounds(ONE)), owner(1, *rounds(ONE)), owner(2, *rounds(ONE))), 3),
    "three owners, a death": Scenario(
        (owner(0, *rounds(ONE)), owner(1, *rounds(ONE)), owner(2, Reserve()), reaper()), 3, deaths=1
    ),
    "three owners, two deaths": Scenario(
        (owner(0, *rounds(ONE)), owner(1, Reserve()), owner(2, Reserve()), reaper()), 3, deaths=2
    ),
    "two reapers": Scenario(
        (owner(0, Reserve(TWO), Release()), reaper(), reaper("rival")), 1, deaths=1, reaper_deaths=1
    ),
    "two reapers, two owners": Scenario(
        (owner(0, Reserve(TWO), Release()), owner(1, Reserve()), reaper(), reaper("rival")),
        2,
        deaths=2,
        reaper_deaths=1,
    ),
    "owners that sweep": Scenario(
        (owner(0, *rounds(ONE), Reap()), owner(1, Reserve(TWO), Reap(), Release()), reaper()), 2, deaths=1
    ),
    "a limit lowered and raised": Scenario(
        (owner(0, *rounds(ONE)), owner(1, Reserve()), newcomer("setter", LOWER, RAISE)), 2
    ),
    "a limit, a death": Scenario((owner(0, *rounds(TWO)), newcomer("setter", LOWER, RAISE), reaper()), 1, deaths=2),
    "a limit, two owners, a death": Scenario(
        (owner(0, *rounds(ONE)), owner(1, Reserve()), newcomer("setter", LOWER, RAISE), reaper()), 2, deaths=1
    ),
    "a newcomer": Scenario(
        (owner(0, *rounds(ONE)), newcomer("newcomer", *VISIT), reaper()), 1, slots=2, deaths=2, reaper_deaths=1
    ),
    "a newcomer stays": Scenario(
        (owner(0, *rounds(ONE)), newcomer("newcomer", Claim(), Reserve()), reaper()), 1, slots=2, deaths=1
    ),
    "a newcomer beside two": Scenario(
        (owner(0, Reserve()), owner(1, Reserve()), newcomer("newcomer", Claim(), mortal=False), reaper()),
        2,
        slots=3,
        deaths=1,
    ),
    "a newcomer waits": Scenario(
        (owner(0, *rounds(ONE), Leave()), newcomer("newcomer", *VISIT), reaper()), 1, slots=1, deaths=2
    ),
    "two newcomers": Scenario(
        (owner(0, Reserve()), newcomer("first", Claim(), Leave()), newcomer("second", Claim(), Leave()), reaper()),
        1,
        slots=2,
        deaths=1,
    ),
    "two resources": Scenario(
        (owner(0, *rounds(BOTH), resources=2), owner(1, *rounds(BOTH), resources=2), reaper(resources=2)),
        2,
        limits=(1, 3),
        deaths=1,
    ),
    "two resources, taken back": Scenario(
        (owner(0, *rounds(BOTH), resources=2), owner(1, *rounds(OTHER), resources=2), reaper(resources=2)),
        2,
        limits=(2, 2),
        deaths=1,
    ),
    "two resources, taken back, three deaths": Scenario(
        (owner(0, *rounds(BOTH), resources=2), owner(1, *rounds(OTHER), resources=2), reaper(resources=2)),
        2,
        limits=(2, 2),
        deaths=2,
        reaper_deaths=1,
    ),
    "adjusted": Scenario(
        (
            owner(0, Reserve(), Adjust(OTHER), resources=2),
            owner(1, Reserve(OTHER), resources=2),
            reaper(resources=2),
        ),
        2,
        limits=(1, 1),
        deaths=1,
        reaper_deaths=1,
    ),
    "adjusted, two at once": Scenario(
        (
            owner(0, Reserve(((0, 1), (1, 1))), Adjust(((0, 2),)), resources=2),
            owner(1, Reserve(), Adjust(OTHER), resources=2),
            reaper(resources=2),
        ),
        2,
        limits=(2, 1),
        deaths=1,
        reaper_deaths=1,
    ),
    "totals": Scenario(
        (owner(0, *rounds(ONE)), newcomer("newcomer", Claim(), *rounds(ONE)), reaper()),
        1,
        slots=2,
        deaths=1,
        reaper_deaths=1,
        totals=True,
    ),
}


def _crowd(size: int, limit: int, *steps: Step, deaths: int = 0) -> Scenario:
    """Bound: ``limit + (W - 1) * a``."""
    actors = tuple(owner(slot, *steps, forgets=False) for slot in range(size))
    reapers = (reaper(),) if deaths else ()
    return Scenario(
        (*actors, *reapers),
        size,
        limits=(limit,),
        mode=Mode.approximate,
        deaths=deaths,
        reaper_deaths=deaths,
        bound=limit + size - 1,
    )


APPROXIMATE = {
    "approximate, two": _crowd(2, 2, *AGAIN),
    "approximate, three": _crowd(3, 1, Reserve(), Reserve()),
    "approximate, two, a death": _crowd(2, 1, *AGAIN, deaths=1),
    "approximate, three, again": _crowd(3, 2, *AGAIN),
    "approximate, three, two deaths": _crowd(3, 1, Reserve(), Reserve(), deaths=2),
    "approximate, a newcomer": Scenario(
        (
            owner(0, Reserve(), Reserve(), Reserve(), forgets=False),
            newcomer("newcomer", Claim(), Reserve(), Reserve(), forgets=False),
        ),
        1,
        slots=2,
        mode=Mode.approximate,
        bound=3,
    ),
}

ALL = STRICT | APPROXIMATE

LARGE = {
    "two owners, tried twice",
    "two owners, twice",
    "two dead, kept apart",
    "a newcomer beside two",
    "three owners, a death",
    "a limit, two owners, a death",
    "two newcomers",
    "two resources, taken back, three deaths",
    "adjusted, two at once",
    "approximate, three, again",
    "three owners, two deaths",
    "two reapers, two owners",
    "approximate, three, two deaths",
}
QUICK = {title: scenario for title, scenario in ALL.items() if title not in LARGE}
