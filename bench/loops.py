"""An event loop for one benchmark, ended cleanly by either signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """What ``main`` returns. SIGINT and SIGTERM cancel it, so that it cleans up, and become ``KeyboardInterrupt``."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_cancelled_by_sigterm(main))
        except asyncio.CancelledError:  # by SIGTERM; the runner itself turns SIGINT into this
            raise KeyboardInterrupt from None


async def _cancelled_by_sigterm(main: Coroutine[Any, Any, Result]) -> Result:
    this = asyncio.current_task()
    assert this
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    return await main
