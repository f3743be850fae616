"""Bodies that are too large are refused before they are read.

Django's ASGI handler keeps a whole body, however large, before any view sees it. So the limit
stands in front of it, on what the header claims and on what really comes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

STATUS = 413
MEDIA_TYPE = "application/problem+json"
_DISCONNECT: Message = {"type": "http.disconnect"}


def refusal(limit: int) -> bytes:
    """The problem that answers a body of more than `limit` bytes."""
    body = {
        "type": "urn:portcullis:problem:too-large",
        "title": "The body is too large",
        "status": STATUS,
        "detail": f"the body has more than {limit} bytes",
    }
    return json.dumps(body).encode()


class BoundedBodies:
    """ASGI application around another one that never sees more than `limit` bytes of a body."""

    def __init__(self, app: App, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _claimed(scope) > self._limit:
            await self._refuse(send)
        else:
            await self._watch(scope, receive, send)

    async def _watch(self, scope: Message, receive: Receive, send: Send) -> None:
        seen, over = 0, False

        async def counted() -> Message:
            nonlocal seen, over
            if over:
                return _DISCONNECT
            message = await receive()
            seen += len(message.get("body", b""))
            over = seen > self._limit
            return _DISCONNECT if over else message

        async def held(message: Message) -> None:
            if not over:
                await send(message)

        await self._app(scope, counted, held)
        if over:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        body = refusal(self._limit)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": STATUS, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _claimed(scope: Message) -> int:
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return 0
