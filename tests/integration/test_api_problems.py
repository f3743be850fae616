"""Errors are RFC 9457 problems that point at the place."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, override_settings

from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"
PROBLEM = "application/problem+json"


def policy(**fields: Any) -> dict[str, Any]:
    return {
        "domain": "flights",
        "name": "new",
        "action": "subscribe",
        "event_type": "Flight",
        "expression": "has(subject.carrier)",
    } | fields


def test_the_shape(world: World, browsers: dict[str, Client]) -> None:
    answer = browsers["manager"].get(f"{API}/policies/999")
    assert answer["Content-Type"] == PROBLEM
    assert answer.json() == {
        "type": "urn:portcullis:problem:not-found",
        "title": "There is no such thing",
        "status": 404,
        "detail": "Not found.",
    }


@pytest.mark.parametrize(
    ("expression", "kind", "position", "suggestion"),
    [
        ('subject.carrier == "UA" &&', "syntax", 26, None),
        ('subject.carrier = "UA"', "syntax", 16, "=="),
        ('subject.carier == "UA"', "unknown", 0, "subject.carrier"),
        ('true && event.carrier == "ua"', "unknown", None, "UA"),
        ('subject.role == "airlin"', "unknown", None, "airline"),
        ("event.carrier == event.origin", None, None, None),
    ],
)
def test_a_wrong_expression_points_at_the_place(
    expression: str,
    kind: str | None,
    position: int | None,
    suggestion: str | None,
    world: World,
    browsers: dict[str, Client],
) -> None:
    answer = browsers["manager"].post(f"{API}/policies", policy(expression=expression), JSON)
    assert answer.status_code == 400
    assert answer["Content-Type"] == PROBLEM
    assert answer.json()["type"] == "urn:portcullis:problem:invalid"
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/expression"
    assert error["detail"]
    if kind is not None:
        assert error["kind"] == kind
    if position is not None:
        assert error["position"] == position
    if suggestion is not None:
        assert error["suggestion"] == suggestion


def test_unknown_attributes_of_a_policy_are_named(
    world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["manager"].post(
        f"{API}/policies", policy(attributes=["carrier", "orign"]), JSON
    )
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["kind"]) == ("/attributes/1", "unknown")
    assert error["suggestion"] == "origin"


def test_attributes_of_sub_types_can_be_named(world: World, browsers: dict[str, Client]) -> None:
    body = policy(expression="event.delay > 120", attributes=["delay", "carrier"])
    assert browsers["manager"].post(f"{API}/policies", body, JSON).status_code == 201


def test_nested_fields_have_pointers(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    body = {"domain": "flights", "name": "Arrival", "parent": "Flight"}
    cases = [
        ([{"name": "x", "type": {"type": "text"}}], "/attributes/0/type"),
        ([{"name": "x", "type": {"type": "string"}, "keys": ["none"]}], "/attributes/0/keys"),
        ([{"type": {"type": "string"}}], "/attributes/0/name"),
        ([{"name": "x", "type": {"type": "bool"}, "color": 1}], "/attributes/0/color"),
    ]
    for attributes, pointer in cases:
        answer = manager.post(f"{API}/event-types", body | {"attributes": attributes}, JSON)
        assert answer.status_code == 400
        assert pointer in [each["pointer"] for each in answer.json()["errors"]]


def test_values_of_a_principal_are_checked(world: World, browsers: dict[str, Client]) -> None:
    body = {"domain": "flights", "name": "Delta", "kind": "subscriber"}
    for values, pointer, suggestion in (
        ({"carrier": "XX"}, "/attributes/carrier", None),
        ({"carier": "UA"}, "/attributes/carier", "carrier"),
    ):
        answer = browsers["manager"].post(f"{API}/principals", body | {"attributes": values}, JSON)
        (error,) = answer.json()["errors"]
        assert error["pointer"] == pointer
        assert error["suggestion"] in (suggestion, "AA", "UA", "DL")


def test_bodies_that_cannot_be_read(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    broken = manager.post(f"{API}/policies", "{", JSON)
    assert (broken.status_code, broken.json()["type"]) == (400, "urn:portcullis:problem:parse")
    text = manager.post(f"{API}/policies", "a=b", "text/plain")
    assert (text.status_code, text["Content-Type"]) == (415, PROBLEM)
    listed = manager.post(f"{API}/policies", [1], JSON)
    assert listed.status_code == 400
    missing = manager.post(f"{API}/policies", {}, JSON)
    assert {"/name", "/expression"} <= {each["pointer"] for each in missing.json()["errors"]}


def test_methods_and_addresses_that_do_not_exist(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    method = manager.delete(f"{API}/audit")
    assert (method.status_code, method["Content-Type"]) == (405, PROBLEM)
    nowhere = manager.get(f"{API}/nothing/here")
    assert (nowhere.status_code, nowhere["Content-Type"]) == (404, PROBLEM)
    assert browsers["anonymous"].get(f"{API}/nothing").status_code == 401


def test_anonymous_callers_learn_how_to_sign_in(world: World) -> None:
    answer = Client().get(f"{API}/policies")
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert answer["Content-Type"] == PROBLEM


def test_what_others_stand_on_stays(world: World, browsers: dict[str, Client]) -> None:
    answer = browsers["manager"].delete(
        f"{API}/attribute-keys/{world.tail.pk}", headers={"If-Match": '"1"'}
    )
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:portcullis:problem:in-use")
    assert "Flight.tail" in answer.json()["detail"]


def test_an_authority_that_is_away_is_said_plainly(
    world: World, browsers: dict[str, Client]
) -> None:
    from adminapp.trustgroups.models import KeyEpoch

    KeyEpoch.objects.create(domain=world.flights, group_ref="key:tail", number=1, wrapped="w")
    answer = browsers["manager"].patch(
        f"{API}/trust-groups/{world.group.pk}",
        {"members": []},
        JSON,
        headers={"If-Match": '"1"'},
    )
    assert (answer.status_code, answer["Content-Type"]) == (503, PROBLEM)
    assert world.group.members.count() == 1


def test_a_failure_of_ours_is_a_problem_too(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    manager.raise_request_exception = False
    with override_settings(AUTH_USER_MODEL="identity.User", ROOT_URLCONF="tests.support.broken"):
        answer = manager.get("/api/v1/broken")
    assert (answer.status_code, answer["Content-Type"]) == (500, PROBLEM)
    assert "secret" not in answer.content.decode()


def test_csrf_is_asked_of_sessions(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.manager, backend="adminapp.identity.backends.ThrottledBackend")
    answer = browser.post(f"{API}/policies", policy(), JSON)
    assert (answer.status_code, answer["Content-Type"]) == (403, PROBLEM)
