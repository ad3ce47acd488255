"""The full form: every scenario, its states counted. ``python -m tests.model [TITLE ...] [--quick] [--variant NAME]``.

A fault is printed with its shortest schedule; ``--replay SCHEDULE`` plays one again in the scenario of that title.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.model.product import Edit
from tests.model.report import ALL, QUICK, Scenario, play, read_schedule, search, tell
from tests.model.search import Outcome
from tests.model.variants import VARIANTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("titles", nargs="*", metavar="TITLE", help="scenarios, all by default")
    parser.add_argument("--quick", action="store_true", help="only what each run of the tests explores")
    parser.add_argument("--variant", choices=sorted(VARIANTS), help="break the product on purpose")
    parser.add_argument("--replay", metavar="SCHEDULE", help="play this schedule in the scenario of that title")
    asked = parser.parse_args()
    titles = asked.titles or list(QUICK if asked.quick else ALL)
    for title in titles:
        if title not in ALL:
            parser.error(f"no scenario {title!r}, allowed: {', '.join(map(repr, ALL))}")
    edits = VARIANTS[asked.variant].edits if asked.variant else ()
    if asked.replay is not None:
        print("\n".join(play(ALL[titles[0]], read_schedule(asked.replay), edits)))
        return 0
    return _explore({title: ALL[title] for title in titles}, edits)


def _explore(scenarios: dict[str, Scenario], edits: tuple[Edit, ...]) -> int:
    console = Console(width=None if sys.stdout.isatty() else 100)
    table = Table("scenario", title="every interleaving, with deaths")
    for column in ("states", "steps", "ends", "in flight", "seconds"):
        table.add_column(column, justify="right")
    table.add_column("result")
    faults, states, complete = [], 0, True
    for title, scenario in scenarios.items():
        console.print(f"{title} ...", style="dim")
        began = time.perf_counter()
        outcome, peak = search(scenario, edits)
        took, states = time.perf_counter() - began, states + outcome.states
        figures = (f"{outcome.states:,}", f"{outcome.steps:,}", f"{outcome.ends:,}", str(peak or ""), f"{took:.1f}")
        complete &= outcome.complete
        table.add_row(title, *figures, _verdict(outcome))
        if outcome.fault:
            faults.append(tell(title, scenario, outcome, edits))
    console.print(table)
    console.print(f"{states:,} states in {len(scenarios)} scenarios, {len(faults)} faults")
    print(*faults, sep="\n\n")
    return int(not complete)


def _verdict(outcome: Outcome) -> str:
    if outcome.fault:
        return "FAULT"
    return "holds" if outcome.complete else "holds so far"


if __name__ == "__main__":
    sys.exit(main())
