"""``python -m tests.torture``: storms of kills in their long form, and what became of them as tables."""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Final

from bench import tables
from tests.torture import report, storm
from tests.torture.plan import PLANS, Plan
from tests.torture.storm import Outcome

ROUND: Final = 250  # kills, until all is counted and begun anew
SHARES: Final = dict(zip((plan.title for plan in PLANS), (0.45, 0.3, 0.2, 0.05), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=20_000, help="how many, over all storms (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default: %(default)s)")
    options = parser.parse_args()
    outcomes = {plan.title: rage(plan, round(options.kills * SHARES[plan.title]), options.seed) for plan in PLANS}
    report.show(outcomes, tables.console())
    return report.unsound(outcomes.values())


def rage(plan: Plan, kills: int, seed: int) -> Outcome:
    """Rounds until so many were killed, each on a segment of its own that is counted in the end."""
    total = Outcome()
    while total.kills < kills:
        with tempfile.TemporaryDirectory(prefix="hardcap-torture-", dir="/dev/shm") as directory:
            wanted = min(ROUND, kills - total.kills)
            total.add(storm.run(plan, "torture", directory, kills=wanted, seed=seed))
        seed += 1
        print(f"{plan.title}: {total.kills} of {kills} kills", file=sys.stderr, flush=True)
    return total


if __name__ == "__main__":
    sys.exit(main())
