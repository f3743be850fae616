"""`?fields=`: lists and objects with the fields that were asked for."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.support.control_plane import World

API = "/api/v1"


def test_a_list_and_an_object_with_some_fields(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    listed = manager.get(f"{API}/policies", {"fields": "name,event_type"}).json()["results"]
    assert listed == [{"name": "own flights", "event_type": "Flight"}]
    one = manager.get(f"{API}/policies/{world.policy.pk}", {"fields": " version , name"})
    assert one.json() == {"version": 1, "name": "own flights"}
    assert one["ETag"] == '"1"'


@pytest.mark.parametrize("path", ["policies", "policies/{policy}", "principals", "audit"])
@pytest.mark.parametrize("fields", ["nothing", "", "id,,name", "domain__name", "pk"])
def test_a_field_that_is_none(
    path: str, fields: str, world: World, browsers: dict[str, Client]
) -> None:
    url = f"{API}/{path.format(policy=world.policy.pk)}"
    answer = browsers["manager"].get(url, {"fields": fields})
    assert answer.status_code == 400
    assert {each["pointer"] for each in answer.json()["errors"]} == {"/fields"}


def test_secrets_cannot_be_asked_for(world: World, browsers: dict[str, Client]) -> None:
    answer = browsers["operator"].get(f"{API}/users", {"fields": "username,password"})
    assert answer.status_code == 400


def test_columns_that_nobody_asked_for_are_not_read(
    world: World, browsers: dict[str, Client]
) -> None:
    with CaptureQueriesContext(connection) as captured:
        browsers["manager"].get(f"{API}/principals", {"fields": "id,name"})
    (query,) = [each["sql"] for each in captured if 'FROM "identity_principal"' in each["sql"]]
    assert '"name"' in query
    assert '"sealing_key"' not in query
    assert not [each for each in captured if "identity_homeagent" in each["sql"]]


def test_pages_go_on_with_the_same_fields(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    first = manager.get(f"{API}/event-types", {"fields": "name", "limit": 1}).json()
    second = manager.get(first["next"]).json()
    assert [*first["results"], *second["results"]] == [{"name": "Flight"}, {"name": "Departure"}]


def test_changes_answer_in_full(world: World, browsers: dict[str, Client]) -> None:
    answer = browsers["manager"].patch(
        f"{API}/policies/{world.policy.pk}?fields=name",
        {"title": "x"},
        "application/json",
        headers={"If-Match": '"1"'},
    )
    assert answer.json()["title"] == "x"
