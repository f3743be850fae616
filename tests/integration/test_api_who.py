"""`/api/v1/access`: who may do what, as every standing, page by page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import services as policies
from tests.support.control_plane import World

API = "/api/v1"
OWN = "where event.carrier is UA"


def ask(client: Client, path: str = "access", **asked: Any) -> dict[str, Any]:
    answer = client.get(f"{API}/{path}", asked)
    assert answer.status_code == 200, answer.content
    return answer.json()


def pages(client: Client, path: str = "access", **asked: Any) -> list[dict[str, Any]]:
    """Every line, a page after the other."""
    found = ask(client, path, **asked)
    lines = found["results"]
    while found["next"]:
        found = ask(client, path, cursor=found["next"], **asked)
        assert len(found["results"]) <= asked.get("limit", 50)
        lines += found["results"]
    return lines


@pytest.fixture
def crowded(world: World) -> World:
    """Ten more subscribers, everybody may receive delays, and the airport may publish."""
    for number in range(10):
        identity.create_principal(
            actor=None,
            domain=world.flights,
            name=f"P{number}",
            kind="subscriber",
            attributes={"carrier": "AA"},
        )
    for name, action, event_type, expression in (
        ("delays", "subscribe", "Departure", "has(subject.carrier)"),
        ("airport", "publish", "Flight", "!has(subject.carrier)"),
    ):
        policies.create_policy(
            actor=None,
            domain=world.flights,
            name=name,
            action=action,
            event_type=event_type,
            expression=expression,
            attributes=None if action == "publish" else ["delay"],
        )
    return world


def test_a_line(world: World, browsers: dict[str, Client]) -> None:
    found = ask(browsers["auditor"], domain="flights", type="Flight")
    assert found == {
        "next": None,
        "results": [
            {
                "domain": "flights",
                "principal": "United",
                "handle": world.united.handle,
                "action": "subscribe",
                "right": "read",
                "type": "Flight",
                "attributes": ["carrier", "origin", "tail"],
                "condition": OWN,
                "policies": ["own flights"],
                "agreement": "",
            }
        ],
    }


@pytest.mark.parametrize("path", ["access", "access/matrix"])
def test_standings(path: str, world: World, browsers: dict[str, Client]) -> None:
    codes = {
        name: browser.get(f"{API}/{path}", {"domain": "flights"}).status_code
        for name, browser in browsers.items()
    }
    assert codes == {
        "operator": 200,
        "manager": 200,
        "auditor": 200,
        "stranger": 404,
        "anonymous": 401,
    }


def test_without_a_domain_one_sees_ones_own(world: World, browsers: dict[str, Client]) -> None:
    assert [each["type"] for each in ask(browsers["operator"])["results"]] == [
        "Departure",
        "Flight",
    ]
    assert ask(browsers["stranger"]) == {"next": None, "results": []}


def test_filters(crowded: World, browsers: dict[str, Client]) -> None:
    auditor = browsers["auditor"]

    def who(**asked: Any) -> list[str]:
        lines = pages(auditor, domain="flights", **asked)
        return list(dict.fromkeys(each["principal"] for each in lines))

    everybody = ["JFK", *(f"P{number}" for number in range(10)), "United"]
    assert who() == everybody
    assert who(action="publish") == ["JFK"]
    assert who(action="subscribe", attribute="tail") == ["United"]
    assert who(attribute="delay", action="subscribe") == everybody[1:]
    assert who(principal="P3") == ["P3"]
    assert who(principal="nobody") == []
    before = timezone.now() - timedelta(days=1)
    assert who(type="Flight", action="subscribe", at=before.isoformat()) == []
    (line,) = pages(auditor, domain="flights", principal="United", attribute="delay")
    assert (line["attributes"], line["condition"], line["policies"]) == (["delay"], "", ["delays"])


def test_pages_hold_every_line_once(crowded: World, browsers: dict[str, Client]) -> None:
    whole = ask(browsers["manager"], limit=200)["results"]
    assert len(whole) == 15
    for limit in (1, 2, 7):
        assert pages(browsers["manager"], limit=limit) == whole
    rows = ask(browsers["manager"], "access/matrix", domain="flights")["results"]
    assert pages(browsers["manager"], "access/matrix", domain="flights", limit=1) == rows


def test_pages_over_many_domains_are_bounded(world: World, browsers: dict[str, Client]) -> None:
    Domain.objects.bulk_create(Domain(name=f"a{number:02}", title="T") for number in range(25))
    first = ask(browsers["operator"])
    assert first["results"] == []
    assert first["next"]
    assert [each["type"] for each in pages(browsers["operator"])] == ["Departure", "Flight"]


def test_the_matrix(crowded: World, browsers: dict[str, Client]) -> None:
    rows = ask(browsers["auditor"], "access/matrix", domain="flights")["results"]
    every = ["carrier", "origin", "tail"]
    assert rows == [
        {
            "policy": "airport",
            "agreement": "",
            "action": "publish",
            "right": "write",
            "who": "subject.carrier is not given",
            "roles": [],
            "principals": 1,
            "types": [
                {"type": "Flight", "attributes": every},
                {"type": "Departure", "attributes": [*every, "delay"]},
            ],
            "condition": "",
        },
        {
            "policy": "delays",
            "agreement": "",
            "action": "subscribe",
            "right": "read",
            "who": "subject.carrier is given",
            "roles": [],
            "principals": 11,
            "types": [{"type": "Departure", "attributes": ["delay"]}],
            "condition": "",
        },
        {
            "policy": "own flights",
            "agreement": "",
            "action": "subscribe",
            "right": "read",
            "who": "role airline",
            "roles": ["airline"],
            "principals": 1,
            "types": [
                {"type": "Flight", "attributes": every},
                {"type": "Departure", "attributes": [*every, "delay"]},
            ],
            "condition": "where event.carrier is subject.carrier",
        },
    ]
    found = ask(browsers["auditor"], "access/matrix", domain="flights", attribute="delay")
    assert [each["types"] for each in found["results"]] == [
        [{"type": "Departure", "attributes": ["delay"]}]
    ] * 3


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"domain": "flights", "type": "Flihgt"}, "/type"),
        ({"domain": "flights", "type": "Flight", "attribute": "delay"}, "/attribute"),
        ({"domain": "flights", "attribute": "carier"}, "/attribute"),
        ({"action": "erase"}, "/action"),
        ({"at": "yesterday"}, "/at"),
        ({"limit": "0"}, "/limit"),
        ({"cursor": "!"}, "/cursor"),
        ({"cursor": "W10="}, "/cursor"),
        ({"whom": "x"}, "/whom"),
    ],
)
def test_wrong_questions(
    asked: dict[str, str], pointer: str, world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["manager"].get(f"{API}/access", asked)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_the_matrix_needs_a_domain(world: World, browsers: dict[str, Client]) -> None:
    answer = browsers["manager"].get(f"{API}/access/matrix")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/domain"
