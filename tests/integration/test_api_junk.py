"""Whatever is sent, the answer is a problem of the caller's and never a failure of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from adminapp.trustgroups import services as trustgroups
from tests.support.control_plane import FakeAuthority, World

API = "/api/v1"
JSON = "application/json"
JUNK: list[Any] = [
    None,
    "",
    "x" * 5000,
    "a\u0000b",
    "\ud800",
    "é/../%00",
    10**40,
    True,
    [None],
    {},
    {"": {}},
    {"a": [{"b": 10**400}]},
]
SOUND = {
    "domain": "flights",
    "name": "new",
    "title": "t",
    "kind": "subscriber",
    "action": "subscribe",
    "event_type": "Flight",
    "expression": "true",
    "type": {"type": "string"},
    "overlay": "a",
    "role": "auditor",
    "user": "sten",
    "username": "somebody",
    "scopes": ["read"],
    "groups": [],
    "sealing_key": "x",
    "verify_key": "x",
    "reason": "because",
    "pia_class": "confidential",
    "number": 1,
}


def _operations(method: str) -> list[tuple[str, dict[str, Any]]]:
    """Every operation with a body, and the fields that the document gives it."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    found = []
    for path, operations in document["paths"].items():
        body = operations.get(method, {}).get("requestBody")
        if body and JSON in body["content"]:  # files have tests of their own
            name = body["content"][JSON]["schema"]["$ref"].rsplit("/", 1)[1]
            found.append((path, document["components"]["schemas"][name]["properties"]))
    return found


def _rows(world: World) -> dict[str, int]:
    return {
        "domains": world.flights.pk,
        "principals": world.united.pk,
        "policies": world.policy.pk,
        "event-types": world.flight.pk,
        "roles": world.airline.pk,
        "trust-groups": world.group.pk,
        "agents": world.alpha.pk,
        "overlays": world.overlay_a.pk,
        "attribute-keys": world.tail.pk,
        "subject-attributes": world.flights.subject_attributes.get().pk,
        "classifications": world.flight.attributes.get(name="origin").pk,
    }


def _send(browser: Client, method: str, url: str, body: Any) -> int:
    with transaction.atomic():
        answer = browser.generic(
            method.upper(), url, json.dumps(body), JSON, headers={"If-Match": "*"}
        )
        transaction.set_rollback(True)
    assert answer.status_code < 500, (url, body, answer.content)
    if answer.status_code >= 400:
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    return answer.status_code


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch, authority: FakeAuthority) -> None:
    """Operations that need a new key get one; what is asked here is what they do with junk."""
    monkeypatch.setattr(trustgroups, "get_authority", lambda: authority)


@pytest.mark.parametrize("method", ["post", "patch"])
def test_every_field_of_every_operation(
    method: str, world: World, browsers: dict[str, Client]
) -> None:
    operator, rows, codes = browsers["operator"], _rows(world), []
    for path, fields in _operations(method):
        collection = path.split("/")[3]
        if "{" in path and collection not in rows:
            continue
        url = path.replace("{id}", str(rows.get(collection, 0)))
        sound = {name: value for name, value in SOUND.items() if name in fields}
        if "principal" in fields:
            sound["principal"] = world.united.pk
        cache.clear()  # nobody is to be slowed down here for how much was asked before
        for name in fields:
            for junk in JUNK:
                body = {name: junk} if method == "patch" else sound | {name: junk}
                codes.append(_send(operator, method, url, body))
    # Junk in the place of a domain names one that is not there.
    assert codes.count(400) + codes.count(404) > len(codes) / 2


@pytest.mark.parametrize("path", ["policies", "principals", "audit", "bundles", "appointments"])
def test_every_query(path: str, world: World, browsers: dict[str, Client]) -> None:
    for name in ("cursor", "limit", "domain", "principal", "revision", "since", "state", "kind"):
        for value in ("", "x", "-1", "1e400", "\u0000", "9" * 60, "é", "[]", "cD0x"):
            answer = browsers["operator"].get(f"{API}/{path}", {name: value})
            assert answer.status_code in (200, 400, 404), (name, value, answer.content)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[" * 100_000, 400),
        (b'{"name": NaN}', 400),
        (b"\xff\xfe", 400),
        (b'{"name": "\\u0000"}', 400),
        (b'"' + b"x" * (5 * 2**20) + b'"', 413),
    ],
)
def test_bodies_beyond_reason(
    body: bytes, code: int, world: World, browsers: dict[str, Client]
) -> None:
    for headers in ({}, {"Idempotency-Key": "k"}):
        answer = browsers["operator"].generic(
            "POST", f"{API}/policies", body, JSON, headers=headers
        )
        assert answer.status_code == code, answer.content
        assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("pk", ["0", "9" * 40, "x", "1.5", "-1", "%00", "..%2f"])
def test_strange_identifiers(pk: str, world: World, browsers: dict[str, Client]) -> None:
    for path in ("policies", "principals", "audit", "domains"):
        answer = browsers["operator"].get(f"{API}/{path}/{pk}")
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/problem+json"
