"""The backends that work here: every contract test runs on each of them."""

from __future__ import annotations

import tempfile
from typing import Final

import hardcap


def _works(backend: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="hardcap-test-", dir="/dev/shm") as directory:
        try:
            hardcap.open("probe", limit=1, directory=directory, backend=backend).close()
        except hardcap.BackendUnavailable:
            return False
    return True


BACKENDS: Final = ["atomics", *filter(_works, ["native"])]  # the portable one must be there
