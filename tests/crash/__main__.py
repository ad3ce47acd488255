"""Kill at every point there is, and print what came of it: ``python -m tests.crash``, or ``make crash``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import astuple
from typing import NamedTuple

from rich.table import Table

from bench import machine
from bench.tables import console, duration, table
from tests.crash.campaign import Outcome
from tests.crash.suite import GROUPS, Group, conduct
from tests.support.processes import Child, RemoteError


class Row(NamedTuple):
    """What came of all scenarios of a group, and what went wrong, if anything did."""

    group: Group
    total: Outcome
    wrong: str
    seconds: float


def run(group: Group, size: int | None, seed: int) -> Row:
    began, total, wrong = time.monotonic(), Outcome(), ""
    with closing(Child()) as conductor, tempfile.TemporaryDirectory(prefix="hardcap-crash-", dir="/dev/shm") as place:
        try:
            for outcome in conduct(conductor, group, place, size, seed):
                total += outcome
        except (RemoteError, EOFError, TimeoutError) as error:
            wrong = f"{error} {conductor.stderr}"
    row = Row(group, total, wrong, time.monotonic() - began)
    sys.stderr.write(f"{', '.join(map(str, astuple(group)))}: {total.kills} kills {wrong or 'recovered'}\n")
    return row


def report(rows: Iterable[Row]) -> Table:
    made = table("Deaths at any instruction", "kills", "left pending", "left held", "recovered", "")
    every = Outcome()
    for group, total, wrong, seconds in rows:
        name = f"{group.kind}, {group.mode}, {group.resources} resource{'s' * (group.resources > 1)}, {group.backend}"
        figures = map(str, (total.kills, total.pending, total.held))
        made.add_row(name, *figures, "[bold red]no[/]" if wrong else "[green]all[/]", duration(seconds * 1e9))
        every += total
    made.add_section()
    made.add_row("all", *map(str, (every.kills, every.pending, every.held)), "", "")
    return made


def main() -> int:
    """Exit status: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--size", type=int, help="points of a scenario, chosen by chance (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="conductors at one time")
    asked = parser.parse_args()
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(lambda group: run(group, asked.size, asked.seed), GROUPS))
    out = console()
    out.print(report(rows))
    for row in rows:
        if row.wrong:
            out.print(f"[bold red]broken[/]: {row.wrong}", soft_wrap=True)
    out.print(machine.line(machine.describe("native and atomics")))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
