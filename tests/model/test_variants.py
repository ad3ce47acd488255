"""The model sees what it is there to see: each broken line of the product is a fault, with a schedule to play again."""

from __future__ import annotations

import pytest

from tests.model.product import Edit, Product
from tests.model.report import ALL, play, read_schedule, search, tell, write_schedule
from tests.model.variants import VARIANTS

pytestmark = pytest.mark.timeout(600)  # of pure computation, whatever else runs on the machine


@pytest.mark.parametrize("title", VARIANTS)
def test_a_broken_line_is_seen(title: str) -> None:
    variant = VARIANTS[title]
    outcome, _ = search(ALL[variant.scenario], variant.edits)
    assert outcome.fault is not None
    assert outcome.fault.startswith(variant.fault)


def test_a_schedule_is_the_shortest_and_can_be_played_again() -> None:
    """Eight steps: both look, both announce, both add."""
    variant = VARIANTS["check, then add"]
    scenario = ALL[variant.scenario]
    outcome, _ = search(scenario, variant.edits)
    told = tell(variant.scenario, scenario, outcome, variant.edits)
    assert len(outcome.schedule) == 8
    assert outcome.schedule == read_schedule(write_schedule(outcome.schedule))
    assert play(scenario, outcome.schedule, variant.edits)[-1].endswith(outcome.fault or "none")
    assert write_schedule(outcome.schedule) in told


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    for old in ("no such line", "self"):
        with pytest.raises(AssertionError, match="allowed: once"):
            Product({}, (Edit("strict", old, ""),))
