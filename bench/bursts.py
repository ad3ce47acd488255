"""Bursts of a crew at the limit, counted by an independent witness."""

from __future__ import annotations

from contextlib import closing

from bench.crew import Crew
from bench.figures import Figures
from bench.tasks import Bursts
from bench.witness import Witness


def burst(crew: Crew, index: int, figure: Figures, task: Bursts) -> None:
    """Of the subject of that index; what came of it is added to its figures."""
    tallies = crew.run(index, task)
    with closing(Witness(task.witness)) as witness:
        figure.add_bursts(tallies, witness.peak)
