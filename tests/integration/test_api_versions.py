"""Preconditions, idempotency keys, pages, and what cannot be set."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.api.models import KeptAnswer
from adminapp.audit.models import Entry
from adminapp.identity.models import Principal
from adminapp.outbox.models import OutboxRow
from adminapp.policies.models import Policy
from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"


@pytest.fixture
def manager(browsers: dict[str, Client]) -> Client:
    return browsers["manager"]


def new_principal(name: str = "Delta") -> dict[str, object]:
    return {"domain": "flights", "name": name, "kind": "subscriber", "attributes": {}}


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_a_change_without_a_version_is_refused(method: str, world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    answer = getattr(manager, method)(url, {"title": "x"}, JSON)
    assert answer.status_code == 428
    assert answer.json()["type"] == "urn:portcullis:problem:version-missing"
    assert Policy.objects.get().version == 1


@pytest.mark.parametrize("method", ["patch", "delete"])
@pytest.mark.parametrize("tag", ['"7"', "nonsense", '"1", "7"'])
def test_a_stale_version_is_refused(method: str, tag: str, world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    entries = Entry.objects.count()
    answer = getattr(manager, method)(url, {"title": "x"}, JSON, headers={"If-Match": tag})
    assert answer.status_code == 412
    assert answer.json()["type"] == "urn:portcullis:problem:stale"
    assert Entry.objects.count() == entries


def test_two_people_change_the_same_thing(world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    seen = manager.get(url)
    first = manager.patch(url, {"title": "one"}, JSON, headers={"If-Match": seen["ETag"]})
    second = manager.patch(url, {"title": "two"}, JSON, headers={"If-Match": seen["ETag"]})
    assert (first.status_code, second.status_code) == (200, 412)
    assert manager.get(url).json()["title"] == "one"
    third = manager.patch(url, {"title": "two"}, JSON, headers={"If-Match": first["ETag"]})
    assert third.status_code == 200


def test_what_was_read_can_be_sent_back(world: World, manager: Client) -> None:
    for path in (
        f"policies/{world.policy.pk}",
        f"principals/{world.united.pk}",
        f"event-types/{world.flight.pk}",
        f"roles/{world.airline.pk}",
        f"trust-groups/{world.group.pk}",
        f"domains/{world.flights.pk}",
    ):
        seen = manager.get(f"{API}/{path}")
        put = manager.put(f"{API}/{path}", seen.json(), JSON, headers={"If-Match": seen["ETag"]})
        assert put.status_code == 200, (path, put.content)
        same = {**put.json(), "version": 0, "revision": 0}
        if "findings" not in seen.json():
            same.pop("findings", None)  # told once, when it is saved
        assert same == {**seen.json(), "version": 0, "revision": 0} | {
            name: 0 for name in ("revision",) if name in same
        }


def test_fields_that_the_system_sets_are_passed_over(world: World, manager: Client) -> None:
    body = new_principal() | {
        "id": 1,
        "handle": "p-0000000000000000",
        "state": "revoked",
        "version": 9,
        "sealing_key": "x",
        "revoked_at": "2020-01-01T00:00:00Z",
    }
    made = manager.post(f"{API}/principals", body, JSON)
    assert made.status_code == 201
    row = Principal.objects.get(name="Delta")
    assert row.pk not in (1, world.united.pk)
    assert row.handle != "p-0000000000000000"
    assert (row.state, row.version, row.sealing_key, row.revoked_at) == ("active", 1, "", None)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("principals", new_principal() | {"domain_id": 2}, "domain_id"),
        ("principals", new_principal() | {"is_superuser": True}, "is_superuser"),
        ("policies", {"domain": "flights", "policy": 1}, "policy"),
        ("memberships", {"domain": "flights", "user": "mona", "superuser": True}, "superuser"),
    ],
)
def test_unknown_fields_are_refused(
    path: str, body: dict[str, object], field: str, manager: Client
) -> None:
    answer = manager.post(f"{API}/{path}", body, JSON)
    assert answer.status_code == 400
    assert f"/{field}" in [each["pointer"] for each in answer.json()["errors"]]


def test_an_object_cannot_move_to_another_domain(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/principals/{world.united.pk}"
    operator, tag = browsers["operator"], {"If-Match": '"1"'}
    moved = operator.patch(url, {"domain": "heating"}, JSON, headers=tag)
    assert moved.status_code == 400
    assert moved.json()["errors"][0]["pointer"] == "/domain"
    stolen = browsers["manager"].patch(url, {"domain": "heating"}, JSON, headers=tag)
    assert stolen.status_code == 404


def test_keys_and_types_of_another_domain_cannot_be_named(
    world: World, browsers: dict[str, Client]
) -> None:
    stranger = browsers["stranger"]
    for path, body in (
        (
            "policies",
            {
                "domain": "heating",
                "name": "x",
                "action": "subscribe",
                "event_type": "Flight",
                "expression": "has(subject.role)",
            },
        ),
        ("event-types", {"domain": "heating", "name": "X", "parent": "Flight"}),
        ("trust-groups", {"domain": "heating", "name": "x", "keys": ["tail"]}),
        ("split-plans", {"domain": "heating", "event_type": "Flight", "groups": []}),
        ("appointments", {"principal": world.united.pk, "name": "licensed"}),
        ("revocations", {"principal": world.united.pk, "reason": "because"}),
    ):
        answer = stranger.post(f"{API}/{path}", body, JSON)
        assert answer.status_code == 400, path
    planned = {"domain": "heating", "policy": world.policy.pk, "data": None}
    assert stranger.post(f"{API}/policies/plan", planned, JSON).status_code == 404


def test_a_post_sent_twice_is_done_once(world: World, manager: Client) -> None:
    headers = {"Idempotency-Key": "abc"}
    first = manager.post(f"{API}/principals", new_principal(), JSON, headers=headers)
    entries, waiting = Entry.objects.count(), OutboxRow.objects.count()
    second = manager.post(f"{API}/principals", new_principal(), JSON, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert second["Location"] == first["Location"]
    assert second["ETag"] == first["ETag"]
    assert second["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert (Entry.objects.count(), OutboxRow.objects.count()) == (entries, waiting)


def test_a_key_stands_for_one_request_of_one_person(
    world: World, browsers: dict[str, Client]
) -> None:
    headers = {"Idempotency-Key": "abc"}
    manager, operator = browsers["manager"], browsers["operator"]
    manager.post(f"{API}/principals", new_principal(), JSON, headers=headers)
    other = manager.post(f"{API}/principals", new_principal("Other"), JSON, headers=headers)
    assert other.status_code == 422
    assert other.json()["type"] == "urn:portcullis:problem:key-reused"
    someone = operator.post(f"{API}/principals", new_principal("Other"), JSON, headers=headers)
    assert someone.status_code == 201


def test_a_refused_request_can_be_corrected_under_its_key(world: World, manager: Client) -> None:
    headers = {"Idempotency-Key": "abc"}
    wrong = manager.post(f"{API}/principals", new_principal("/"), JSON, headers=headers)
    right = manager.post(f"{API}/principals", new_principal(), JSON, headers=headers)
    assert (wrong.status_code, right.status_code) == (400, 201)


def test_the_secret_of_a_token_is_not_kept_for_replays(world: World, manager: Client) -> None:
    headers = {"Idempotency-Key": "abc"}
    body = {"name": "robot", "scopes": ["read"]}
    made = manager.post(f"{API}/tokens", body, JSON, headers=headers)
    again = manager.post(f"{API}/tokens", body, JSON, headers=headers)
    assert (made.status_code, again.status_code) == (201, 409)
    assert KeptAnswer.objects.get().body is None
    assert manager.get(f"{API}/tokens").json()["results"][0].get("secret") is None


def test_pages_are_walked_by_cursor(world: World, manager: Client) -> None:
    for number in range(5):
        manager.post(f"{API}/principals", new_principal(f"P{number}"), JSON)
    url, seen = f"{API}/principals?limit=3", []
    while url:
        page = manager.get(url).json()
        assert len(page["results"]) <= 3
        seen += [each["name"] for each in page["results"]]
        url = page["next"]
    assert seen == ["United", "JFK", "P0", "P1", "P2", "P3", "P4"]


def test_lists_are_filtered(world: World, browsers: dict[str, Client]) -> None:
    operator = browsers["operator"]

    def names(path: str, **query: str) -> list[str]:
        return [each["name"] for each in operator.get(f"{API}/{path}", query).json()["results"]]

    assert names("principals", kind="publisher") == ["JFK"]
    assert names("principals", domain="heating") == []
    assert names("agents", overlay="b") == ["gamma"]
    assert names("policies", event_type="Departure") == []
    assert names("policies", event_type="Flight", enabled="true") == ["own flights"]
    refused = operator.get(f"{API}/principals", {"kind": "king"})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/kind"
