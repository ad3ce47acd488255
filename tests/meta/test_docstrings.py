"""Every public object has an example in its docstring, and the example does what it shows."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import hardcap
import hardcap.directory

INTEGRATIONS = {
    "hardcap.asgi": ["HardcapMiddleware"],
    "hardcap.opentelemetry": ["observe"],
    "hardcap.prometheus": ["HardcapCollector", "exposition"],
    "hardcap.vllm": ["SharedAdmissionStats"],
    "hardcap.wsgi": ["HardcapMiddleware"],
}


def members(public: object) -> list[str]:
    """The methods and properties that a class of this package defines for its users."""
    if not isinstance(public, type) or issubclass(public, enum.Enum):
        return []
    kinds = FunctionType, property, classmethod
    return [name for name, member in vars(public).items() if not name.startswith("_") and isinstance(member, kinds)]


def documented() -> list[str]:
    """Where each object is found, as ``pkgutil.resolve_name`` has it."""
    found = []
    for name in hardcap.__all__:
        found += [f"hardcap:{name}", *(f"hardcap:{name}.{member}" for member in members(getattr(hardcap, name)))]
    return found + [f"{module}:{name}" for module, names in INTEGRATIONS.items() for name in names]


def example(public: str) -> doctest.DocTest:
    """The example of an object, with what its user has imported: the package, and what an integration offers."""
    names: dict[str, Any] = {"hardcap": hardcap}
    module = importlib.import_module(public.partition(":")[0])
    if module is not hardcap:
        names |= {name: getattr(module, name) for name in module.__all__}
    text = inspect.getdoc(pkgutil.resolve_name(public)) or ""
    return doctest.DocTestParser().get_doctest(text, names, public, None, None)


def complaints(test: doctest.DocTest) -> str:
    """Run it, and close all that it opened. What was not as shown."""
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    try:
        runner.run(test, out=told.append, clear_globs=False)
    finally:
        for value in test.globs.values():
            for limiter in [value, getattr(value, "_limiter", None)]:
                if isinstance(limiter, hardcap.Limiter):
                    limiter.close()
        test.globs.clear()
    return "".join(told)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, segment_dir: Path, tmp_path: Path) -> None:
    """An example names its segment as a service would: it must not meet one of this machine's."""
    monkeypatch.setattr(hardcap.directory, "default_directory", lambda: str(segment_dir))
    monkeypatch.chdir(tmp_path)


def test_none_is_left_out() -> None:
    """What a module of an integration offers, and what the classes do."""
    for module, names in INTEGRATIONS.items():
        assert sorted(importlib.import_module(module).__all__) == names
    some = {"open", "Limiter.reserve", "Limiter.held", "Permit.released", "Config.from_toml"}
    assert {f"hardcap:{name}" for name in some} <= set(documented())


@pytest.mark.parametrize("public", documented())
def test_an_example_does_what_it_shows(public: str) -> None:
    test = example(public)
    assert test.examples, f"{public} has no example"
    assert complaints(test) == ""


def test_an_example_that_is_wrong_is_told() -> None:
    text = '>>> hardcap.open("web", limit=2).reserve(3)\nTrue\n'
    wrong = doctest.DocTestParser().get_doctest(text, {"hardcap": hardcap}, "wrong", None, None)
    assert "Got:\n    False" in complaints(wrong)


@pytest.mark.parametrize("kind", ["Limiter", "Permit"])
@pytest.mark.parametrize("backend", ["auto", "atomics"])
def test_help_shows_the_same_whatever_the_backend(kind: str, backend: str) -> None:
    """Of the methods; a property's text is found on its class."""
    base = getattr(hardcap, kind)
    with hardcap.open("web", limit=2, backend=backend) as limiter, limiter.admit() as permit:
        shown = limiter if kind == "Limiter" else permit
        for name in members(base):
            is_property = isinstance(getattr(base, name), property)
            text = inspect.getdoc(getattr(type(shown), name) if is_property else getattr(shown, name))
            assert text == inspect.getdoc(getattr(base, name)), name
