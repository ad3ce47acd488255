"""The product's own code in every interleaving of the smaller scenarios; ``make model`` explores the rest."""

from __future__ import annotations

import pytest

from tests.model.report import ALL, QUICK, search, tell
from tests.support.forms import long_form

MIDDLE = ("two dead, kept apart", "a newcomer beside two")  # of the larger ones

pytestmark = pytest.mark.timeout(600)  # of pure computation, whatever else runs on the machine


@pytest.mark.parametrize("title", [*QUICK, *(pytest.param(title, marks=long_form) for title in MIDDLE)])
def test_whoever_goes_on_or_dies_when(title: str) -> None:
    """B01: no unit is lost or given back twice, and all comes to an end, whoever dies before whichever access."""
    scenario = ALL[title]
    outcome, peak = search(scenario)
    assert outcome.fault is None, tell(title, scenario, outcome)
    assert outcome.complete
    assert outcome.ends
    assert peak == (scenario.bound or 0), "the bound of approximate mode is reached, and not passed"
