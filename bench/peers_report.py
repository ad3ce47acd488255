"""hardcap and its peers as tables that fit in 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from rich.table import Table

from bench import alone, machine, tables
from bench.figures import Figures
from bench.peers_outcome import Peers
from bench.survival import LIMIT, PATIENCE, Doing

KILLED: Final = {Doing.HOLDING: "killed\nholding", Doing.INSIDE: "killed\nin lock", Doing.WORKING: "killed\nat work"}


def show(peers: Peers) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    console.print(_pairs(peers))
    console.print(_throughput(peers))
    console.print(tables.goals(peers.ratios()))
    for line in _lines(peers):
        console.print(line)


def _pairs(peers: Peers) -> Table:
    made = tables.table(
        "A pair, by number of processes, and who survives", *map(str, peers.processes), *KILLED.values()
    )
    for name, cells in _rows(peers, lambda figures: tables.duration(median(figures.pair_ns))):
        made.add_row(name, *cells, *(_survival(peers, name, doing) for doing in KILLED))
    for name, why in peers.missing.items():
        made.add_row(f"{name}: {why}")
    return made


def _throughput(peers: Peers) -> Table:
    made = tables.table("Pairs a second, all processes together", *map(str, peers.processes))
    for name, cells in _rows(peers, lambda figures: f"{median(figures.pairs_per_second):,.0f}"):
        made.add_row(name, *cells)
    return made


def _rows(peers: Peers, cell: Callable[[Figures], str]) -> Iterator[tuple[str, list[str]]]:
    for name in peers.names:
        row = [peers.figure(name, processes) for processes in peers.processes]
        yield name, [cell(figures) if figures else "-" for figures in row]


def _survival(peers: Peers, name: str, doing: Doing) -> str:
    for survival in peers.survivals:
        if (survival.name, survival.doing) == (name, doing):
            return "survives" if survival.survived else f"{survival.units} of {LIMIT}"
    return ""


def _lines(peers: Peers) -> Iterator[str]:
    yield tables.GOALS_NOTE
    yield "pair: processor time of a reserve and its release, median of rounds (Redis: the client's alone)"
    yield f"killed: {LIMIT} units were asked for afterwards, for {PATIENCE:.0f} s; survives: all of them were had"
    yield "in lock: inside the lock around the counter; at work: between any two of the steps that need no lock"
    yield "filelock, portalocker: as many lock files as units, one of them locked for each"
    yield f"empty C method: called twice, the least that a pair can cost; goals: on backend {peers.modes[0].backend}"
    yield "; ".join(_form(peers, name) for name in (alone.ADMIT_RELEASE, alone.ADMIT, alone.LOCK))
    yield ", ".join(f"{package} {version}" for package, version in peers.versions.items())
    for survival in peers.broken:
        yield f"[bold red]broken[/]: {survival.name}, killed {survival.doing}: {survival.units} of {LIMIT} units left"
    for survival in peers.blind:
        yield f"[bold red]blind[/]: {survival.name}, killed {survival.doing}, is said to have lost nothing"
    yield machine.line(peers.machine)


def _form(peers: Peers, name: str) -> str:
    return f"{name} {tables.duration(median(peers.forms[name].pair_ns))}"
