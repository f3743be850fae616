"""Roles with parameters, appointments by principals, sessions and explanations over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from adminapp.identity.models import User
from adminapp.roles.models import Appointment
from tests.support.control_plane import World

API = "/api/v1"
READERS = {"operator": 200, "manager": 200, "auditor": 200, "stranger": 404, "anonymous": 401}
OFFICER = {
    "domain": "flights",
    "name": "officer",
    "parameters": ["number", {"name": "rank", "type": {"type": "int"}}],
    "rules": [
        {
            "role": "officer(x, y)",
            "prerequisites": ["airline"],
            "appointments": ["badge(x,y)"],
            "constraints": ["env.alarm"],
            "membership": ["airline"],
        }
    ],
}


def post(browser: Client, path: str, body: Any, **more: Any) -> Any:
    return browser.post(f"{API}/{path}", body, "application/json", **more)


def test_a_role_shows_its_rules_and_findings(world: World, browsers: dict[str, Client]) -> None:
    made = post(browsers["manager"], "roles", OFFICER)
    assert made.status_code == 201, made.content
    body = made.json()
    assert body["parameters"] == OFFICER["parameters"]
    (rule,) = body["rules"]
    assert rule["appointments"] == ["badge(x, y)"]
    assert rule["membership"] == ["airline"]
    (finding,) = body["findings"]
    assert (finding["rule"], finding["kind"]) == (0, "unset")
    again = {key: body[key] for key in ("title", "parameters", "rules")}
    sent = browsers["manager"].patch(
        made["Location"], again, "application/json", headers={"If-Match": made["ETag"]}
    )
    assert sent.json()["rules"] == body["rules"]
    (listed,) = [
        each
        for each in browsers["manager"].get(f"{API}/roles").json()["results"]
        if each["name"] == "officer"
    ]
    assert "findings" not in listed


@pytest.mark.parametrize(
    ("change", "pointer", "position"),
    [
        (
            {"rules": [{"role": "officer(x, y)", "appointments": ["badge(x, y"]}]},
            "/rules/0/appointments/0",
            10,
        ),
        (
            {"rules": [{"role": "officer(x, y)", "appointments": ["badge(x)"]}]},
            "/rules/0/role",
            None,
        ),
        (
            {"rules": [{"role": "officer(1, 2)", "prerequisites": ["pilot"]}]},
            "/rules/0/prerequisites/0",
            None,
        ),
        (
            {"rules": [{"role": "officer(1, 2)", "constraints": ["env.alarm &&"]}]},
            "/rules/0/constraints/0",
            12,
        ),
        ({"rules": [{"roles": "officer"}]}, "/rules/0/roles", None),
        ({"parameters": ["a b"], "rules": []}, "/parameters/0", None),
        ({"parameters": 7}, "/parameters", None),
        ({"rules": [{"constraints": [7]}], "parameters": []}, "/rules/0/constraints", None),
    ],
)
def test_refusals_point_at_the_place(
    change: Any, pointer: str, position: int | None, world: World, browsers: dict[str, Client]
) -> None:
    answer = post(browsers["manager"], "roles", {**OFFICER, **change})
    assert answer.status_code == 400, answer.content
    problem = answer.json()["errors"][0]
    assert (problem["pointer"], problem.get("position")) == (pointer, position)


def test_an_appointment_by_who_may_not_appoint(
    world: World, browsers: dict[str, Client], delegate: User
) -> None:
    body = {"principal": world.airport.pk, "name": "licensed", "issued_by": world.united.pk}
    refused = post(browsers["manager"], "appointments", body)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/issued_by"
    rule = {"domain": "flights", "name": "licensed", "by": ["airline"], "longest": 3600}
    assert post(browsers["manager"], "appointment-rules", rule).status_code == 201
    forever = post(browsers["manager"], "appointments", body)
    assert forever.json()["errors"][0]["pointer"] == "/ends"
    body["ends"] = (Appointment.objects.get().starts).isoformat()
    late = post(browsers["manager"], "appointments", body)
    assert late.json()["errors"][0]["pointer"] == "/ends"
    assert post(browsers["auditor"], "appointments", body).status_code == 403
    assert post(browsers["anonymous"], "appointments", body).status_code == 401
    assert post(browsers["stranger"], "appointments", body).status_code == 400  # unknown to them
    theirs = Client()
    theirs.force_login(delegate, backend="adminapp.identity.backends.ThrottledBackend")
    foreign = post(theirs, "appointments", {"principal": world.airport.pk, "name": "heads"})
    assert foreign.status_code == 403


def test_sessions_over_rest(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    opened = post(manager, "sessions", {"principal": world.united.pk})
    assert opened.status_code == 201, opened.content
    assert [each["role"] for each in opened.json()["active"]] == ["airline"]
    refused = post(
        manager, "sessions", {"principal": world.united.pk, "activate": ["airline", "pilot"]}
    )
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/activate/1"
    for standing, code in {"auditor": 403, "stranger": 400, "anonymous": 401}.items():
        body = {"principal": world.united.pk}
        assert post(browsers[standing], "sessions", body).status_code == code, standing
    url, tag = opened["Location"], opened["ETag"]
    appointment = f"{API}/appointments/{world.appointment.pk}"
    ended = manager.delete(appointment, headers={"If-Match": manager.get(appointment)["ETag"]})
    assert ended.status_code == 204
    seen = manager.get(url).json()
    assert seen["active"] == []
    assert seen["ended"][0]["chain"][0].startswith("`airline` ended because appointment")
    stale = manager.delete(url, headers={"If-Match": tag})
    assert stale.status_code == 412
    for standing, code in {
        "auditor": 403,
        "stranger": 404,
        "anonymous": 401,
        "manager": 204,
    }.items():
        with transaction.atomic():
            headers = {"If-Match": f'"{seen["version"]}"'}
            assert browsers[standing].delete(url, headers=headers).status_code == code, standing
    assert manager.get(url).json()["closed"] is not None
    listed = manager.get(f"{API}/sessions?open=true&principal={world.united.pk}").json()
    assert listed["results"] == []


def test_the_roles_of_a_principal(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/principals/{world.united.pk}/roles"
    found = {name: browsers[name].get(url).status_code for name in READERS}
    assert found == READERS
    (role,) = browsers["auditor"].get(url).json()["roles"]
    assert (role["role"], role["active"]) == ("airline", True)
    assert role["steps"][0]["issuer"] == "mona"
    (why,) = (
        browsers["auditor"]
        .get(f"{API}/principals/{world.airport.pk}/roles?role=airline")
        .json()["roles"]
    )
    assert not why["active"]
    assert why["steps"][0]["why"] == "appointment `licensed` is not held"
    past = browsers["auditor"].get(f"{url}?at=2020-01-01T00:00:00Z").json()
    assert past["roles"] == []
    for query in ("role=air(", "at=yesterday", "what=1"):
        assert browsers["auditor"].get(f"{url}?{query}").status_code == 400, query
