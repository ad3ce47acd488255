"""The lightest client that still speaks HTTP: it shares the processors with what it measures."""

from __future__ import annotations

import asyncio
from typing import Final, cast

import httptools

from bench.clients import REQUEST_SECONDS
from bench.server import HOST, Server

_REQUEST: Final = "GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: bench\r\naccept: */*\r\n\r\n"


class Line(asyncio.Protocol):
    """One kept-alive connection, with one request at a time. It is not made anew: whoever loses it has an error."""

    def __init__(self, server: Server) -> None:
        self._port = server.port
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. ``OSError`` if the connection is lost, ``TimeoutError`` if there is no answer."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, HOST, self._port)
        assert self._transport
        if self._transport.is_closing():
            raise ConnectionError("closed by the server")
        self._answer = loop.create_future()
        self._transport.write(_REQUEST.format(path, HOST).encode())
        silence = loop.call_later(REQUEST_SECONDS, self._fail, TimeoutError())
        try:
            return await self._answer
        finally:
            silence.cancel()

    async def close(self) -> None:
        """Idempotent."""
        if self._transport is not None:
            self._transport.abort()
            await asyncio.sleep(0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by their class

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("closed by the server"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), self._body))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
