"""What hardcap costs in front of an application, as tables that fit in 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rich.table import Table

from bench import http_direct, machine, tables
from bench.http_outcome import Http, Least
from bench.http_runs import CLIENTS, LIMIT, OVERLOAD, WAIT, WORKERS


def show(http: Http) -> None:
    """Print everything to stdout, the machine beneath."""
    console = tables.console()
    for table in (_direct(http), tables.goals(http.ratios()), _servers(http), _goals(http)):
        console.print(table)
    for line in _lines(http):
        console.print(line)


def _direct(http: Http) -> Table:
    made = tables.table("A request, called directly: processor time", "median", "least", "added")
    for name, figures in http.direct.items():
        added = median(http_direct.added(http.direct, name).pair_ns)
        times = tables.duration(median(figures.pair_ns)), tables.duration(min(figures.pair_ns))
        made.add_row(name, *times, "-" if name == http_direct.BARE else tables.duration(added))
    return made


def _servers(http: Http) -> Table:
    made = tables.table(f"On uvicorn, {WORKERS} workers", "admitted per s", "refused per s", "p50", "p99")
    for name, load in http.loads.items():
        paces = (f"{median(pace):,.0f}" for pace in (load.admitted_per_second, load.refused_per_second))
        made.add_row(name, *paces, *(tables.duration(1e9 * load.seconds(fraction)) for fraction in (0.5, 0.99)))
    return made


def _goals(http: Http) -> Table:
    made = tables.table("Goals on uvicorn", "ratio", "allowed", "")
    for goal in http.goals():
        allowed = f"at {'least' if isinstance(goal, Least) else 'most'} {goal.allowed:g}"
        made.add_row(goal.name, tables.number(goal.observed), allowed, tables.verdict(goal.met))
    for goal in http.server_controls():
        made.add_row(f"control: {goal.name}", tables.number(goal.observed))
    return made


def _lines(http: Http) -> Iterator[str]:
    yield tables.GOALS_NOTE
    yield "added: by the middleware, what a request takes behind it less what the bare application takes"
    yield f"bare, hardcap, spinning: 1 ms of processor time a request, {CLIENTS} clients, the cap far away"
    wait = f"1 ms of processor time and {1000 * WAIT:.0f} ms of waiting"
    yield f"unloaded, overloaded: {wait}, a limit of {LIMIT}, {LIMIT} and {OVERLOAD * LIMIT} clients"
    yield "spinning: hardcap and 200 us on top, which must be seen, or nothing here means anything"
    for name in http.blurred:
        yield f"[bold red]blurred[/]: the machine is too busy, and this says nothing of hardcap either: {name}"
    for name in http.blind:
        yield f"[bold red]blind[/]: 200 us more were not seen: {name}"
    for side, causes in http.failed.items():
        yield f"[bold red]failed[/]: {side}: {', '.join(f'{count} times {cause}' for cause, count in causes.items())}"
    yield machine.line(http.machine)
