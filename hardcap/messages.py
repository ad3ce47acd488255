"""The messages of ASGI: which is the last of a response, and which refuse a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any, Final

from hardcap.permit import Permit
from hardcap.refusal import Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DISCONNECTS: Final = frozenset({"http.disconnect", "websocket.disconnect"})

_BODIES: Final = frozenset({"http.response.body", "http.response.pathsend", "http.response.zerocopysend"})
_ENDS: Final = frozenset({"websocket.close", "websocket.http.response.body"})
_TRY_AGAIN_LATER: Final = 1013


def releasing(permit: Permit, send: Send) -> Send:
    """``send`` that gives the permit back once the server has taken the last message of the response."""
    trailers = False

    async def send_and_release(message: Message) -> None:
        nonlocal trailers
        kind = message["type"]
        if kind in _BODIES:
            last = not trailers and not message.get("more_body", False)
        elif kind == "http.response.trailers":
            last = not message.get("more_trailers", False)
        elif kind in _ENDS:
            last = not message.get("more_body", False)
        else:
            last = False
            trailers = trailers or bool(message.get("trailers", False))
        await send(message)
        if last:
            permit.release()

    return send_and_release


def refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
    """Answer in the application's place, without reading the request."""
    if scope["type"] == "http":
        return _respond(refusal, scope, send)
    return _refuse_websocket(refusal, scope, receive, send)


async def _refuse_websocket(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    if (await receive())["type"] in DISCONNECTS:
        return
    if "websocket.http.response" in (scope.get("extensions") or ()):
        await _respond(refusal, scope, send, "websocket.")
    else:
        await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": ""})


async def _respond(refusal: Refusal, scope: Scope, send: Send, prefix: str = "") -> None:
    headers, body = refusal.raw_answer(*_accept_and_content_type(scope["headers"]))
    await send({"type": prefix + "http.response.start", "status": refusal.status, "headers": headers})
    body = b"" if scope.get("method") == "HEAD" else body
    await send({"type": prefix + "http.response.body", "body": body, "more_body": False})


def _accept_and_content_type(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    accept: list[bytes] = []
    content_type: list[bytes] = []
    for name, value in headers:
        if name == b"accept":
            accept.append(value)
        elif name == b"content-type":
            content_type.append(value)
    return b",".join(accept), b",".join(content_type)
