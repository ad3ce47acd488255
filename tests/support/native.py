"""For tests of the native core: where there is none they are skipped, and say why."""

from __future__ import annotations

import pytest

from hardcap import extension

needs_native = pytest.mark.skipif(extension.native is None, reason=f"no native core here: {extension.reason}")
