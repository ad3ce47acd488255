"""The C compiler that an ordinary install uses, and copies of the package built by it in other ways.

``python -m tests.support.builds`` says which backend to expect here: native where that compiler works.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.edits import replace_once

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "hardcap" / "native.c"
STRICT: Final = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZED: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")


def compiler() -> list[str]:
    """What setuptools would call."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def works() -> bool:
    """Whether the compiler makes a program."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "program.c")
        source.write_text("int main(void) { return 0; }\n")
        try:
            return not subprocess.run(
                [*compiler(), source, "-o", source.with_suffix("")], capture_output=True
            ).returncode
        except OSError:
            return False


def extension() -> dict[str, Any]:
    """How pyproject.toml has the native core built."""
    (found,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return dict(found)


def build(source: Path, library: Path, flags: Sequence[str] = (), include: str = "") -> None:
    """Compile the native core as pyproject.toml says, and with these flags. What the compiler says is in the error."""
    table = extension()
    macros = [f"-D{key}={value}" for key, value in table["define-macros"]]
    includes = f"-I{include or sysconfig.get_path('include')}"
    options = [*table["extra-compile-args"], *macros, includes, "-shared", "-fPIC", *flags]
    done = subprocess.run([*compiler(), *options, source, "-o", library], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def copy_package(
    into: Path, flags: Sequence[str] = (), *plants: tuple[str, str], file: str = SOURCE.name, include: str = ""
) -> Path:
    """The package in another directory, with these passages of a file replaced; the native core, if that is the file,
    is built with these flags, and the headers of ``include`` or of this Python."""
    package = into / "hardcap"
    shutil.copytree(SOURCE.parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    source = package / file
    for plant in plants:
        source.write_text(replace_once(source.read_text(), *plant))
    if file == SOURCE.name:
        build(source, package / "native.abi3.so", flags, include)
    return into


def importing(copy: Path) -> dict[str, str]:
    """Environment in which a child imports this copy of the package, and our other modules."""
    return {"PYTHONPATH": f"{copy}:{ROOT}"}


def sanitizers() -> list[str]:
    """The libraries that a build with `SANITIZED` needs; empty where the compiler has none."""
    names = ("libasan.so", "libubsan.so")
    asked = [[*compiler(), f"-print-file-name={name}"] for name in names] if works() else []
    found = [subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() for command in asked]
    return found if all(map(os.path.isabs, found)) else []


def sanitizing() -> dict[str, str]:
    """Environment for a build with `SANITIZED`: every object of Python's is one of malloc's then, and watched."""
    found = sanitizers()
    assert found, f"no sanitizers beside {compiler()}"
    options = "detect_leaks=0:abort_on_error=0:exitcode=86:allocator_may_return_null=1"
    return {
        "LD_PRELOAD": ":".join(found),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=86",
        "PYTHONMALLOC": "malloc",
    }


if __name__ == "__main__":
    sys.stdout.write("native\n" if works() else "atomics\n")
