"""`/api/v1/explain`: why and why not, as every standing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from adminapp.identity.services import issue_token
from tests.support.control_plane import World

API = "/api/v1"
WHY = {"domain": "flights", "principal": "United", "action": "subscribe", "type": "Flight"}
STANDINGS = {"operator": 200, "manager": 200, "auditor": 200, "stranger": 404, "anonymous": 401}


def test_standings(world: World, browsers: dict[str, Client]) -> None:
    def codes(path: str, asked: dict[str, str]) -> dict[str, int]:
        return {name: browsers[name].get(f"{API}/{path}", asked).status_code for name in STANDINGS}

    assert codes("explain", WHY) == STANDINGS
    assert codes("explain/contrast", {**WHY, "other": "JFK"}) == STANDINGS
    body = {**WHY, "event": {"carrier": "UA"}}
    posted = {
        name: browsers[name].post(f"{API}/explain", body, "application/json").status_code
        for name in STANDINGS
    }
    assert posted == STANDINGS


def test_allowed(world: World, browsers: dict[str, Client]) -> None:
    found = browsers["auditor"].get(f"{API}/explain", {**WHY, "attribute": "tail"}).json()
    assert (found["allowed"], found["missing"], found["alternatives"]) == (True, [], [])
    assert found["summary"] == "United may read `tail` of `Flight` where event.carrier is UA"
    assert [(line["depth"], line["kind"], line["name"]) for line in found["chain"]] == [
        (0, "policy", "own flights"),
        (1, "role", "airline"),
        (2, "appointment", "licensed"),
        (1, "condition", ""),
        (0, "key", "tail"),
    ]
    by_number = browsers["auditor"].get(
        f"{API}/explain", {**WHY, "principal": str(world.united.pk)}
    )
    assert by_number.json()["principal"] == "United"


def test_refused(world: World, browsers: dict[str, Client]) -> None:
    found = browsers["manager"].get(f"{API}/explain", {**WHY, "principal": "JFK"}).json()
    assert not found["allowed"]
    assert found["chain"] == []
    assert found["missing"][0] == {
        "kind": "role",
        "text": "role `airline` is missing: appointment `licensed` was never given",
        "steps": [
            {
                "kind": "appoint",
                "name": "licensed",
                "value": [],
                "text": "appoint it to `licensed`",
            }
        ],
    }
    assert found["alternatives"][0]["policy"] == "own flights"
    assert found["alternatives"][0]["sufficient"]


def test_one_event_and_two_principals(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    for carrier, allowed in (("UA", True), ("AA", False)):
        body = {**WHY, "event": {"carrier": carrier}}
        answer = manager.post(f"{API}/explain", body, "application/json")
        assert answer.json()["allowed"] == allowed
    found = manager.get(f"{API}/explain/contrast", {**WHY, "other": "JFK"}).json()
    assert (found["first"]["allowed"], found["second"]["allowed"]) == (True, False)
    assert found["differences"][0]["kind"] == "role"
    assert "JFK may not" in found["summary"]


def test_a_token_that_may_only_read_may_ask(world: World) -> None:
    _row, secret = issue_token(
        actor=world.manager, user=world.manager, name="reader", scopes=["read"]
    )
    body = {**WHY, "event": {"carrier": "UA"}}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = Client().post(f"{API}/explain", body, "application/json", headers=headers)
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"principal": "Unitde"}, "/principal"),
        ({"principal": "9" * 30}, "/principal"),
        ({"action": "erase"}, "/action"),
        ({"at": "soon"}, "/at"),
        ({"whom": "x"}, "/whom"),
    ],
)
def test_wrong_questions(
    asked: dict[str, Any], pointer: str, world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["manager"].get(f"{API}/explain", {**WHY, **asked})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_an_event_has_plain_values(world: World, browsers: dict[str, Client]) -> None:
    for event in ({"carrier": ["UA"]}, {"carrier": None}, "UA"):
        answer = browsers["manager"].post(
            f"{API}/explain", {**WHY, "event": event}, "application/json"
        )
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"].startswith("/event")
