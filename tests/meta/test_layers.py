"""Imports go one way: the table of layers in the package's docstring says which, the sources say whether."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hardcap
from hardcap import cli
from tests.meta import sources
from tests.support.processes import DEADLINE

PACKAGES = {package.__name__: package for package in (hardcap, cli)}
LAYERS = {
    name: re.findall(r"^    (\w+)  +\S", (package.__doc__ or "").partition("Layers")[2], re.MULTILINE)
    for name, package in PACKAGES.items()
}
# The only module that may import each of them.
SEAMS = {"atomics": "words", "rich": "cli", "prometheus_client": "prometheus", "opentelemetry": "opentelemetry"}


def modules(package: str) -> dict[str, list[Path]]:
    return sources.modules(Path(*PACKAGES[package].__path__))


def imported_layers(package: str, module: str) -> set[str]:
    """The modules of a package that one of them imports."""
    prefix, known = f"{package}.", modules(package)
    names = [name for path in known[module] for name in sources.imports(path) if name.startswith(prefix)]
    return {name.removeprefix(prefix).split(".")[0] for name in names} & known.keys()


@pytest.mark.parametrize("package", LAYERS)
def test_the_table_names_every_module(package: str) -> None:
    assert len(LAYERS[package]) == len(set(LAYERS[package]))
    assert set(LAYERS[package]) == modules(package).keys() - {"__init__", "__main__"}


@pytest.mark.parametrize(("package", "module"), [(package, module) for package in LAYERS for module in LAYERS[package]])
def test_imports_go_downwards_only(package: str, module: str) -> None:
    layers = LAYERS[package]
    assert imported_layers(package, module) <= set(layers[: layers.index(module)]) | {module}


@pytest.mark.parametrize(("package", "owner"), SEAMS.items())
def test_a_seam_has_one_importer(package: str, owner: str) -> None:
    """One module imports it, so that everything else can do without."""
    importers = {
        module
        for module, paths in sources.modules().items()
        if any(name.split(".")[0] == package for path in paths for name in sources.imports(path))
    }
    assert importers == {owner}


def test_who_does_not_need_them_does_not_load_them() -> None:
    """A command line and an event loop cost more to import than all of the package."""
    code = "import sys, hardcap\nprint(sorted({'asyncio', 'rich', 'argparse'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert done.stdout == "[]\n"
