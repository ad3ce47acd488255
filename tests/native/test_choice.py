"""Which backend runs: the one asked for or an error with the remedy, and where there is no native core, atomics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hardcap
from hardcap import extension
from tests.conftest import Spawn
from tests.support import expected
from tests.support.native import needs_native
from tests.support.processes import Child, RemoteError

BLOCK = """
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname == blocked or fullname.startswith(blocked + "."):
            raise ImportError(f"no {fullname} today")

sys.meta_path.insert(0, Block())
"""
LISTEN = """
import logging
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append([record.levelname, record.name, record.getMessage()])
logging.getLogger().addHandler(handler)
logging.getLogger().setLevel(logging.DEBUG)
"""
OPEN = "import hardcap\nhardcap.open(name, limit=2, directory=directory, **settings).snapshot().backend"
NATIVE = "native" if extension.native is not None else "atomics"


class Process:
    """A process that opens this test's segment, with one module made impossible to import."""

    def __init__(self, child: Child, name: str, directory: Path, blocked: str) -> None:
        self._child = child
        child.run(BLOCK + LISTEN, blocked=blocked)
        child.run("pass", name=name, directory=str(directory))

    def backend(self, **settings: Any) -> Any:
        return self._child.run(OPEN, settings=settings)

    def refusal(self, **settings: Any) -> str:
        with pytest.raises(RemoteError) as caught:
            self.backend(**settings)
        assert caught.value.kind == "BackendUnavailable"
        return str(caught.value)

    def run(self, code: str, **variables: Any) -> Any:
        return self._child.run(code, **variables)

    def log(self) -> Any:
        return self._child.run("lines")


@pytest.fixture
def without(spawn: Spawn, name: str, segment_dir: Path) -> Any:
    return lambda blocked, **options: Process(spawn(**options), name, segment_dir, blocked)


def test_what_this_run_expects_is_what_runs(name: str, segment_dir: Path) -> None:
    """`make test` says what to expect, so that an optional build cannot hide that it failed."""
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        assert limiter.snapshot().backend == (expected.BACKEND or NATIVE)


@needs_native
@pytest.mark.parametrize("backend", ["native", "atomics"])
@pytest.mark.parametrize("mode", hardcap.Mode)
def test_the_one_asked_for(name: str, segment_dir: Path, mode: hardcap.Mode, backend: str) -> None:
    with hardcap.open(name, limit=1, mode=mode, directory=segment_dir, backend=backend) as limiter:
        assert limiter.snapshot().backend == backend
        assert (type(limiter).__module__ == "hardcap.native") is (backend == "native")


@pytest.mark.parametrize("value", ["auto", "native", "atomics"])
def test_asked_for_by_the_environment(without: Any, name: str, segment_dir: Path, value: str) -> None:
    env = {"HARDCAP_BACKEND": value, "HARDCAP_NAME": name, "HARDCAP_LIMIT": "2", "HARDCAP_DIR": str(segment_dir)}
    process = without("nothing", env=env)
    code = "import hardcap\nhardcap.open(hardcap.Config.from_env()).snapshot().backend"
    if value == "native" and extension.native is None:
        with pytest.raises(RemoteError, match="BackendUnavailable"):
            process.run(code)
    else:
        assert process.run(code) == (NATIVE if value == "auto" else value)


def test_without_a_native_core_atomics_it_is_and_one_line_says_so(without: Any) -> None:
    process = without("hardcap.native")
    assert [process.backend(), process.backend(backend="auto"), process.backend(backend="atomics")] == ["atomics"] * 3
    line = "the native core is not there (no hardcap.native today): the package atomics is used"
    assert process.log() == [["INFO", "hardcap", line]]


def test_a_native_core_that_is_not_there(without: Any, name: str) -> None:
    text = without("hardcap.native").refusal(backend="native")
    assert f"/{name}'" in text
    assert "found no native core (no hardcap.native today), expected backend 'native'; install " in text
    assert "C compiler" in text


def test_atomics_that_is_not_there(without: Any) -> None:
    text = without("atomics").refusal(backend="atomics")
    assert "the atomics package unusable (ImportError: no atomics today)" in text
    assert "pip install 'atomics" in text


@needs_native
def test_the_native_core_needs_no_atomics(without: Any) -> None:
    process = without("atomics")
    assert process.backend() == process.backend(backend="native", mode="strict") == "native"
    code = """
for mode in ("strict", "approximate"):
    limiter = hardcap.open(f"{name}-{mode}", limit=2, directory=directory, mode=mode)
    with limiter.admit(2):
        assert not limiter.reserve()
    limiter.set_limit(1), limiter.reap(), limiter.close()
sorted(module for module in sys.modules if module.startswith("atomics"))
"""
    assert process.run(code) == []
    assert [text for _, _, text in process.log() if "is full" not in text] == []


def test_with_neither_it_says_so(without: Any) -> None:
    process = without("atomics")
    process.run("blocked = 'hardcap.native'\nsys.meta_path.insert(0, Block())\nsys.modules['atomics'] = None")
    assert "the atomics package unusable" in process.refusal()
