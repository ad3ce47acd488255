"""gunicorn's configuration under test: each worker tells the witness that it has started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def post_worker_init(worker: Any) -> None:
    Path(os.environ["WITNESS"], f"startup-{worker.pid}").touch()
