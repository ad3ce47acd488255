"""A server program that starts its workers as vLLM does, run as ``python -m tests.support.spawned_servers``.

The parent binds one socket and spawns the workers, which all serve it. Each worker imports the middlewares by their
dotted paths and adds them to a FastAPI application without an argument: nothing but the environment configures them.
"""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast


def serve(listening: socket.socket, middlewares: Sequence[str]) -> None:
    """One worker, until SIGTERM."""
    import uvicorn  # here, since the parent does without

    from tests.support.held_app import signed

    config = uvicorn.Config(signed(build(middlewares)), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    (Path(os.environ["WITNESS"]) / f"startup-{os.getpid()}").touch()
    server.run(sockets=[listening])


def build(middlewares: Sequence[str]) -> Any:
    """An application behind these middlewares, each a class."""
    from fastapi import FastAPI

    from tests.support import held_app

    app = FastAPI()
    app.mount("/", held_app.plain)
    for path in middlewares:
        module, _, name = path.rpartition(".")
        imported: Any = getattr(importlib.import_module(module), name)
        if not inspect.isclass(imported):
            raise TypeError(f"'{path}' is no class")
        app.add_middleware(cast(Any, imported))
    return app


def main(workers: int, middlewares: Sequence[str]) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # whoever comes before the first worker does waits
        processes = spawn(listening, workers, middlewares)
        print(f"Uvicorn running on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        signal.sigwait([signal.SIGTERM])
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def spawn(listening: socket.socket, workers: int, middlewares: Sequence[str]) -> list[BaseProcess]:
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        context.Process(target=serve, args=(listening, middlewares)) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # only now: a child would inherit it
    return processes


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
