"""A body of 100 MB is refused before it is read, whichever way it comes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from adminapp.audit.models import Entry
from adminapp.core.bodies import BoundedBodies
from tests.support.control_plane import World

API = "/api/v1"
HUGE = 100 * 2**20
CHUNK = 2**20


class Caller:
    """One ASGI request whose body comes in pieces, and what came back."""

    def __init__(self, size: int, *, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        self.left = size
        self.taken = 0
        self.answer: list[dict[str, Any]] = []
        self.scope = {"type": "http", "path": "/", "headers": headers or []}

    async def receive(self) -> dict[str, Any]:
        piece = min(CHUNK, self.left)
        self.left -= piece
        self.taken += piece
        return {"type": "http.request", "body": b"x" * piece, "more_body": self.left > 0}

    async def send(self, message: dict[str, Any]) -> None:
        self.answer.append(message)

    def call(self, app: BoundedBodies) -> int:
        asyncio.run(app(self.scope, self.receive, self.send))
        return int(self.answer[0]["status"])


async def reader(_scope: Any, receive: Any, send: Any) -> None:
    """An application that reads everything, as Django does."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_claimed_size_is_enough_to_refuse() -> None:
    caller = Caller(HUGE, headers=[(b"Content-Length", str(HUGE).encode())])
    assert caller.call(BoundedBodies(reader, 4 * CHUNK)) == 413
    assert caller.taken == 0
    assert json.loads(caller.answer[1]["body"])["type"] == "urn:portcullis:problem:too-large"
    assert (b"content-type", b"application/problem+json") in caller.answer[0]["headers"]


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"5")], [(b"content-length", b"x")]])
def test_what_comes_is_counted_whatever_was_claimed(headers: list[tuple[bytes, bytes]]) -> None:
    caller = Caller(HUGE, headers=headers)
    assert caller.call(BoundedBodies(reader, 4 * CHUNK)) == 413
    assert caller.taken == 5 * CHUNK
    assert len(caller.answer) == 2


def test_bodies_within_the_limit_pass() -> None:
    caller = Caller(4 * CHUNK)
    assert caller.call(BoundedBodies(reader, 4 * CHUNK)) == 200


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
def test_an_upload_of_100_mb_leaves_no_trace(
    headers: dict[str, str], world: World, browsers: dict[str, Client]
) -> None:
    assert HUGE > settings.UPLOAD_LIMIT
    entries = Entry.objects.count()
    for kind in ("application/json", "application/yaml", "text/csv", "multipart/form-data"):
        answer = browsers["manager"].generic(
            "POST",
            f"{API}/principals",
            b"",
            kind,
            CONTENT_LENGTH=str(HUGE),
            headers=headers,
        )
        assert answer.status_code == 413, kind
        assert answer["Content-Type"] == "application/problem+json"
    assert Entry.objects.count() == entries
