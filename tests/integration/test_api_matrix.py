"""Every operation of the API as everybody: an operation that is added needs a line in the table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator

from adminapp.audit.models import Entry as AuditEntry
from tests.support.api_rights import STANDINGS, TABLE, Entry
from tests.support.api_rows import clients, people, rows, unthrottle
from tests.support.control_plane import World

API = "/api/v1"
METHODS = ("get", "post", "put", "patch", "delete")


@cache
def operations() -> tuple[str, ...]:
    """Every operation of the document, as `METHOD /path`."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    return tuple(
        f"{method.upper()} {path.removeprefix(API)}"
        for path, found in document["paths"].items()
        for method in found
        if method in METHODS
    )


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside never was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class Stage:
    """The world with a row for everything, and everybody who may call."""

    def __init__(self, world: World) -> None:
        users = people(world)
        self.rows = rows(world)
        self.clients = clients(users)
        self.entry = AuditEntry.objects.filter(domain_name="flights").latest("sequence")

    def url(self, path: str) -> str:
        row = self.rows.get(path.split("/")[1])
        known = {"sequence": self.entry.sequence, "domain": "flights", "name": "alarm"}
        known["number"] = 1
        known["id"] = getattr(row, "pk", 0)
        return API + path.format(**known)

    def body(self, body: Any) -> Any:
        """`@principals` stands for the number of the principal, and so on."""
        if not isinstance(body, dict):
            return body
        return {
            name: self.rows[value[1:]].pk if str(value).startswith("@") else value
            for name, value in body.items()
        }

    def call(self, operation: str, entry: Entry, standing: str) -> tuple[int, str]:
        """The status of one call, which is undone."""
        method, _, path = operation.partition(" ")
        url = self.url(path)
        body = self.body(entry.body)
        if body is None and method == "PUT":
            shown = self.clients["operator"].get(url)
            body = shown.json() if shown.status_code == 200 else {}
        with undone():
            answer = self.clients[standing].generic(
                method,
                url + entry.query,
                body if isinstance(body, bytes) else json.dumps(body or {}),
                entry.media,
                headers={"If-Match": "*"},
            )
            text = "" if answer.streaming else answer.content.decode()[:300]
        return answer.status_code, text


def test_no_operation_is_forgotten_here() -> None:
    assert sorted(TABLE) == sorted(operations())


def test_who_may_call_what(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    unthrottle(monkeypatch)
    stage, wrong = Stage(world), []
    for operation, entry in TABLE.items():
        for standing in STANDINGS:
            code, text = stage.call(operation, entry, standing)
            expected = entry.right.code(standing)
            right = code in entry.codes if expected is None else code == expected
            if not right:
                wrong.append(f"{operation} as {standing}: {code}, not {expected} {text}")
    assert not wrong, "\n".join(wrong)


def test_every_post_that_is_sent_twice_is_one_deed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered again from memory, or with a 409 where the answer held a secret."""
    unthrottle(monkeypatch)
    stage, wrong, seen = Stage(world), [], 0
    for operation, entry in TABLE.items():
        method, _, path = operation.partition(" ")
        if method != "POST":
            continue
        body = stage.body(entry.body)
        allowed = "operator" if "operator" in entry.right.allowed else "manager"
        sent = {
            "path": stage.url(path) + entry.query,
            "data": body if isinstance(body, bytes) else json.dumps(body or {}),
            "content_type": entry.media,
            "headers": {"If-Match": "*", "Idempotency-Key": operation},
        }
        with undone():
            first = stage.clients[allowed].generic("POST", **sent)
            entries = AuditEntry.objects.count()
            second = stage.clients[allowed].generic("POST", **sent)
            if first.status_code >= 300:
                continue
            seen += 1
            again = second.get("Idempotency-Replayed") == "true" and second.json() == first.json()
            secret = second.status_code == 409 and "secret" in first.json()
            if not (again or secret) or AuditEntry.objects.count() != entries:
                wrong.append(f"{operation}: {first.status_code}, {second.status_code}")
    assert not wrong, wrong
    assert seen > 25
