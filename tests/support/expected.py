"""The backend that this run was told to expect: ``HARDCAP_EXPECT_BACKEND``, which `make test` sets."""

from __future__ import annotations

import os
from typing import Final

_VARIABLE: Final = "HARDCAP_EXPECT_BACKEND"
BACKEND: Final = os.environ.get(_VARIABLE)


def hide() -> None:
    """From the code under test: a ``HARDCAP_`` variable that it does not know is an error to it."""
    os.environ.pop(_VARIABLE, None)
