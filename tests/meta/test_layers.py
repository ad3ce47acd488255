"""Imports go one way: the table of layers in the package's docstring says which, the sources say whether."""

from __future__ import annotations

import re

import pytest

import hardcap
from tests.meta import sources

LAYERS = re.findall(r"^    (\w+)  +\S", (hardcap.__doc__ or "").partition("Layers")[2], re.MULTILINE)
# The only module that may import each of them.
SEAMS = {"atomics": "words", "rich": "cli", "prometheus_client": "prometheus", "opentelemetry": "opentelemetry"}


def imported_layers(module: str) -> set[str]:
    names = (name.split(".") for name in sources.imports(sources.modules()[module]))
    return {name[1] for name in names if name[0] == "hardcap" and len(name) > 1 and name[1] in sources.modules()}


def test_the_table_names_every_module() -> None:
    assert len(LAYERS) == len(set(LAYERS))
    assert set(LAYERS) == sources.modules().keys() - {"__init__", "__main__"}


@pytest.mark.parametrize("module", LAYERS)
def test_imports_go_downwards_only(module: str) -> None:
    assert imported_layers(module) <= set(LAYERS[: LAYERS.index(module)]) | {module}


@pytest.mark.parametrize(("package", "owner"), SEAMS.items())
def test_a_seam_has_one_importer(package: str, owner: str) -> None:
    """One module imports it, so that everything else can do without."""
    importers = {
        module
        for module, path in sources.modules().items()
        if any(name.split(".")[0] == package for name in sources.imports(path))
    }
    assert importers == ({owner} & sources.modules().keys())
