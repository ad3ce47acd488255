"""Ways for a request handler to hang."""

from __future__ import annotations

import ctypes
import time

FOREVER = 3600


def sleep(how: str) -> None:
    """``python``: signal handlers run meanwhile. ``c``: none does, nor any other thread, since the GIL is held."""
    if how == "python":
        time.sleep(FOREVER)
    else:
        ctypes.PyDLL(None).sleep(FOREVER)
