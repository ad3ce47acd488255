"""Every ordering argument stands at both of its ends, under one tag."""

from __future__ import annotations

import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.meta import sources

TAG = re.compile(r"\[([A-Z]\d+)\]")
PARTNER = re.compile(r"pairs: \[([A-Z]\d+)\] in (\w+)")


def remarks(path: Path) -> Iterator[str]:
    """Docstrings and comments; comments on adjoining lines are one."""
    block, last = "", -1
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.STRING and token.string.startswith('"""'):
                yield token.string
            elif token.type == tokenize.COMMENT:
                if token.start[0] != last + 1:
                    yield block
                    block = ""
                block, last = block + token.string + "\n", token.start[0]
    yield block


def places() -> dict[str, list[str]]:
    """Modules by tag, one for each remark in which the tag stands."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in ((module, path) for module, paths in sources.modules().items() for path in paths):
        for remark in remarks(path):
            for tag in set(TAG.findall(remark)):
                found[tag].append(module)
    return found


def test_every_tag_stands_at_two_places() -> None:
    found = places()
    assert found
    assert {tag: modules for tag, modules in found.items() if len(modules) < 2} == {}


def test_every_partner_that_is_named_answers() -> None:
    """Where a remark says in which module its other end is, it is there."""
    found, missing = places(), []
    for module, path in ((module, path) for module, paths in sources.modules().items() for path in paths):
        for tag, partner in PARTNER.findall(path.read_text()):
            if partner in sources.modules() and partner not in found[tag]:
                missing.append(f"{module}: [{tag}] in {partner}")
    assert missing == []
