"""Subjects that each break in one way, for the bench to find out.

``python -m tests.support.subjects KIND OPTION...`` is ``python -m bench modes OPTION...`` with one of them more.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass

from bench import modes
from bench.baselines import Attach, Context, Gate, NoAdmission, Subject


@dataclass(frozen=True)
class Liar(NoAdmission):
    """Promises the limit, and lets everybody in."""

    name: str = "liar"

    def bound(self, limit: int, processes: int) -> int | None:
        return limit


@dataclass(frozen=True)
class Mortal(NoAdmission):
    """Its first reservation ends the process, without a word."""

    name: str = "mortal"

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return _attach_mortal


@dataclass(frozen=True)
class Faulty(NoAdmission):
    """Its first reservation raises."""

    name: str = "faulty"

    def share(self, context: Context, limit: int, processes: int) -> Attach:
        return _attach_faulty


SUBJECTS: dict[str, Subject] = {subject.name: subject for subject in (Liar(), Mortal(), Faulty())}


def _attach_mortal(_index: int) -> Gate:
    return Gate(_die, _die, _nothing)


def _attach_faulty(_index: int) -> Gate:
    return Gate(_fail, _fail, _nothing)


def _die() -> bool:
    os._exit(3)


def _fail() -> bool:
    raise ArithmeticError("lost count")


def _nothing() -> None:
    return None


if __name__ == "__main__":
    kind, *options = sys.argv[1:]
    parser = argparse.ArgumentParser()
    modes.configure(parser)
    sys.exit(modes.run(parser.parse_args(options), extra=[SUBJECTS[kind]]))
