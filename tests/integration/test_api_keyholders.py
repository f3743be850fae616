"""Histories, holders, rotation and distrust over REST, as everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from adminapp.identity import services as identity
from adminapp.trustgroups import services
from adminapp.trustgroups.models import KeyEpoch
from tests.support.audiences import live_authority
from tests.support.control_plane import World

__all__ = ["live_authority"]

API = "/api/v1"
READERS = {"operator": 200, "manager": 200, "auditor": 200, "stranger": 404, "anonymous": 401}


@pytest.fixture
def keyed(world: World, live_authority: Path, settings: Any) -> World:
    """The world with an authority and its first keys."""
    settings.AUTHORITY_SOCKET = live_authority
    services.ensure_epochs(actor=None, domain=world.flights)
    return world


def post(client: Client, path: str, body: dict[str, Any]) -> Any:
    return client.post(f"{API}/{path}", body, "application/json")


@pytest.mark.parametrize("place", ["trust-groups/{group}/history", "attribute-keys/{key}/holders"])
def test_reading(place: str, keyed: World, browsers: dict[str, Client]) -> None:
    path = f"{API}/{place.format(group=keyed.group.pk, key=keyed.tail.pk)}"
    assert {name: browsers[name].get(path).status_code for name in READERS} == READERS


def test_what_is_shown(keyed: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    services.update_trust_group(
        actor=keyed.manager, trust_group=keyed.group, members=[keyed.beta], reason="moved"
    )
    (first, second) = manager.get(f"{API}/trust-groups/{keyed.group.pk}/history").json()["results"]
    assert (first["agent"], first["ended_why"]) == ("alpha", "moved")
    assert (second["agent"], second["until"], second["why"]) == ("beta", None, "moved")
    url = f"{API}/attribute-keys/{keyed.tail.pk}/holders"
    now = manager.get(url).json()
    assert [(each["agent"], each["epoch"], each["epoch_state"]) for each in now] == [
        ("beta", 1, "current"),
        ("beta", 2, "staged"),
    ]
    assert len(manager.get(url, {"past": "true"}).json()) == 3
    assert manager.get(url, {"domain": "nowhere"}).status_code == 404
    other = browsers["operator"].get(url, {"domain": "heating"})
    assert other.json()["errors"][0]["pointer"] == "/domain"


@pytest.mark.parametrize("place", ["trust-groups/{group}/rotate", "attribute-keys/{key}/rotate"])
def test_rotating(place: str, keyed: World, browsers: dict[str, Client]) -> None:
    path = place.format(group=keyed.group.pk, key=keyed.tail.pk)
    body = {"reason": "yearly"}
    codes = {"anonymous": 401, "stranger": 404, "auditor": 403}
    assert {name: post(browsers[name], path, body).status_code for name in codes} == codes
    assert not KeyEpoch.objects.filter(state="staged").exists()
    assert post(browsers["manager"], path, {}).status_code == 400
    answer = post(browsers["manager"], path, body)
    assert answer.status_code == 201, answer.content
    made = answer.json()
    (epoch,) = made if isinstance(made, list) else [made]
    assert (epoch["group"], epoch["number"], epoch["reason"]) == ("key:tail", 2, "yearly")
    assert epoch["retired_at"] is None


def test_rotating_in_a_domain_below(keyed: World, browsers: dict[str, Client]) -> None:
    child = identity.create_domain(
        actor=keyed.operator, name="regional", title="Regional", parent=keyed.flights
    )
    path = f"attribute-keys/{keyed.tail.pk}/rotate"
    body = {"reason": "yearly", "domain": "regional"}
    assert post(browsers["manager"], path, body).status_code == 404  # not a member there
    assert post(browsers["operator"], path, body).json()["domain"] == "regional"
    assert KeyEpoch.objects.get(state="staged").domain == child


def test_distrusting(keyed: World, browsers: dict[str, Client]) -> None:
    path = f"agents/{keyed.alpha.pk}/distrust"
    everywhere = {"reason": "odd traffic"}
    codes = {"anonymous": 401, "stranger": 403, "auditor": 403, "manager": 403}
    assert {name: post(browsers[name], path, everywhere).status_code for name in codes} == codes
    here = {**everywhere, "domain": "flights"}
    codes = {"anonymous": 401, "stranger": 404, "auditor": 403}
    assert {name: post(browsers[name], path, here).status_code for name in codes} == codes
    assert keyed.alpha.trust_groups.exists()
    answer = post(browsers["manager"], path, here)
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "agent": "alpha",
        "left": [{"domain": "flights", "group": "handlers"}],
    }
    assert not keyed.alpha.trust_groups.exists()
    assert KeyEpoch.objects.get(state="staged").reason == "distrusted: odd traffic"
    assert post(browsers["operator"], path, everywhere).json()["left"] == []
    assert post(browsers["operator"], "agents/99999/distrust", everywhere).status_code == 404
