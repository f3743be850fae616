"""Two managers at once: one gets a 412 and sees the difference."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"


@pytest.fixture
def manager(browsers: dict[str, Client]) -> Client:
    return browsers["manager"]


def changed(manager: Client, url: str, **fields: object) -> str:
    """Change the object as the other manager; give the tag from before."""
    before = manager.get(url)["ETag"]
    answer = manager.patch(url, fields, JSON, headers={"If-Match": before})
    assert answer.status_code == 200, answer.content
    return before


@pytest.mark.parametrize("method", ["patch", "put"])
def test_the_second_of_two_sees_the_difference(method: str, world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    seen = manager.get(url).json()
    before = changed(manager, url, title="one", valid_until="2030-01-01T00:00:00Z")
    mine = {"title": "two", "enabled": False, "valid_until": "2030-01-01T01:00:00+01:00"}
    body = mine if method == "patch" else seen | mine
    answer = getattr(manager, method)(url, body, JSON, headers={"If-Match": before})
    assert answer.status_code == 412
    problem = answer.json()
    assert sorted(problem["changes"], key=lambda change: change["pointer"]) == [
        {"pointer": "/enabled", "yours": False, "theirs": True},
        {"pointer": "/title", "yours": "two", "theirs": "one"},
    ]
    assert problem["current"] == manager.get(url).json()
    assert answer["ETag"] == manager.get(url)["ETag"]
    again = manager.patch(url, mine, JSON, headers={"If-Match": answer["ETag"]})
    assert again.status_code == 200


def test_a_late_deletion_shows_what_would_have_gone(world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    before = changed(manager, url, title="one")
    answer = manager.delete(url, headers={"If-Match": before})
    assert answer.status_code == 412
    assert answer.json()["current"]["title"] == "one"
    assert answer.json()["changes"] == []


def test_actions_show_it_too(world: World, manager: Client) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    before = changed(manager, url, title="one")
    answer = manager.post(f"{url}/restore", {"number": 1}, JSON, headers={"If-Match": before})
    assert answer.status_code == 412
    assert answer.json()["current"]["title"] == "one"


def test_nobody_else_is_shown_anything(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/policies/{world.policy.pk}"
    for standing, code in (("stranger", 404), ("auditor", 403), ("anonymous", 401)):
        answer = browsers[standing].patch(url, {"title": "x"}, JSON, headers={"If-Match": '"99"'})
        assert answer.status_code == code
        assert "current" not in answer.json()
