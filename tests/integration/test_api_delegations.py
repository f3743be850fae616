"""Delegations over REST, and what a delegate may do there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.identity.models import Delegation, User
from tests.integration.test_api_access import READERS, undone
from tests.support.control_plane import World

API = "/api/v1"


@pytest.fixture
def all_browsers(browsers: dict[str, Client], delegate: User, colleague: User) -> dict[str, Client]:
    for name, user in (("delegate", delegate), ("colleague", colleague)):
        browsers[name] = Client()
        browsers[name].force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    return browsers


def body(**more: Any) -> dict[str, Any]:
    ends = (timezone.now() + timedelta(days=3)).isoformat()
    return {
        "user": "cora",
        "domain": "flights",
        "roles": ["airline"],
        "event_types": ["Flight"],
        "ends": ends,
        **more,
    }


def test_reading(all_browsers: dict[str, Client], delegate: User) -> None:
    url = f"{API}/delegations/{Delegation.objects.get(user=delegate).pk}"
    expected = {**READERS, "delegate": 200, "colleague": 404}
    assert {name: all_browsers[name].get(url).status_code for name in expected} == expected
    shown = all_browsers["auditor"].get(url).json()
    assert (shown["user"], shown["domain"], shown["granted_by"]) == ("dora", "flights", "mona")
    assert (shown["roles"], shown["event_types"]) == (["airline"], ["Flight"])
    lists = {
        name: len(all_browsers[name].get(f"{API}/delegations").json()["results"])
        for name in ("operator", "manager", "auditor", "delegate", "stranger", "colleague")
    }
    assert lists == {
        "operator": 1,
        "manager": 1,
        "auditor": 1,
        "delegate": 1,
        "stranger": 0,
        "colleague": 0,
    }


def test_giving(all_browsers: dict[str, Client]) -> None:
    expected = {
        "anonymous": 401,
        "stranger": 404,
        "colleague": 404,
        "auditor": 403,
        "delegate": 403,
        "manager": 201,
        "operator": 201,
    }
    for name, code in expected.items():
        with undone():
            answer = all_browsers[name].post(f"{API}/delegations", body(), "application/json")
            assert answer.status_code == code, (name, answer.content)
            if code == 201:
                assert all_browsers[name].get(answer["Location"]).json() == answer.json()
                assert answer.json()["granted_by"] in {"mona", "olga"}


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"user": "nobody"}, "/user"),
        ({"roles": ["pilot"]}, "/roles"),
        ({"event_types": ["Train"]}, "/event_types"),
        ({"roles": [], "event_types": []}, ""),
        ({"ends": "2001-01-01T00:00:00Z"}, "/ends"),
        ({"ends": "2999-01-01T00:00:00Z"}, "/ends"),
    ],
)
def test_giving_what_cannot_be(
    wrong: dict[str, Any], pointer: str, all_browsers: dict[str, Client]
) -> None:
    answer = all_browsers["manager"].post(f"{API}/delegations", body(**wrong), "application/json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_ending(all_browsers: dict[str, Client], delegate: User) -> None:
    url = f"{API}/delegations/{Delegation.objects.get(user=delegate).pk}"
    tag = all_browsers["manager"].get(url)["ETag"]
    expected = {
        "anonymous": 401,
        "stranger": 404,
        "colleague": 404,
        "auditor": 403,
        "delegate": 403,
        "manager": 204,
        "operator": 204,
    }
    for name, code in expected.items():
        with undone():
            answer = all_browsers[name].delete(url, headers={"If-Match": tag})
            assert answer.status_code == code, (name, answer.content)
    all_browsers["manager"].delete(url, headers={"If-Match": tag})
    assert all_browsers["delegate"].get(url).status_code == 404
    held = all_browsers["manager"].get(f"{API}/delegations", {"in_force": "true"}).json()
    over = all_browsers["manager"].get(f"{API}/delegations", {"in_force": "false"}).json()
    assert (len(held["results"]), len(over["results"])) == (0, 1)


def test_a_delegate_reads_the_domain_and_changes_nothing_that_is_not_covered(
    all_browsers: dict[str, Client], world: World
) -> None:
    browser = all_browsers["delegate"]
    for path in ("domains", "principals", "roles", "event-types", "policies", "memberships"):
        assert browser.get(f"{API}/{path}").json()["results"], path
    principal = f"{API}/principals/{world.united.pk}"
    tag = {"If-Match": browser.get(principal)["ETag"]}
    refused = [
        browser.patch(principal, {"name": "X"}, "application/json", headers=tag),
        browser.delete(principal, headers=tag),
        browser.post(
            f"{API}/principals",
            {"domain": "flights", "name": "New", "kind": "person"},
            "application/json",
        ),
        browser.post(
            f"{API}/memberships",
            {"domain": "flights", "user": "dora", "role": "manager"},
            "application/json",
        ),
        browser.patch(
            f"{API}/domains/{world.flights.pk}",
            {"title": "Mine"},
            "application/json",
            headers={"If-Match": "*"},
        ),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
