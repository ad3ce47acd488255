"""The short form of a test, which every run takes, and the long one: ``TEST_FULL=1``, or ``make test-full``."""

from __future__ import annotations

import os
from typing import Final

import pytest

FULL: Final = os.environ.get("TEST_FULL") == "1"

long_form = pytest.mark.skipif(not FULL, reason="takes long: make test-full")
