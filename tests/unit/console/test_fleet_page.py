"""Fleets on the page of enrolment: agents that nobody looks at one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.enrolment.models import EnrolmentToken, Fleet
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE = "/enrolments/"
PLACE = f"{PAGE}fleets/"


def edge(**more: object) -> dict[str, object]:
    """What a browser sends for a fleet."""
    ends = timezone.now() + timedelta(days=2)
    said = {"name": "edge", "overlay": "a", "pattern": "edge-*", "most": 3}
    return said | {"ends": f"{ends:%Y-%m-%dT%H:%M}", **more}


def test_an_operator_adds_and_ends_a_fleet(world: World, browsers: dict[str, Client]) -> None:
    operator = browsers["operator"]
    assert "Add a fleet" in operator.get(PAGE).content.decode()
    assert operator.post(PLACE, edge()).status_code == 302
    row = Fleet.objects.get()
    assert (row.name, row.overlay.name, row.pattern, row.most) == ("edge", "a", "edge-*", 3)
    page = operator.get(PAGE).content.decode()
    assert "0 of 3" in page
    assert "lets agents in" in page
    made = operator.post(f"{PAGE}token/", {"fleet": "edge"}).content.decode()
    assert "--name &lt;name&gt;" in made
    assert "the fleet lets it in" in made
    assert EnrolmentToken.objects.get().fleet == row
    operator.post(f"{PLACE}edge/end/", {})
    operator.post(f"{PLACE}edge/end/", {"version": 99})
    row.refresh_from_db()
    assert row.ends > timezone.now()
    operator.post(f"{PLACE}edge/end/", {"version": row.version})
    row.refresh_from_db()
    assert row.ends <= timezone.now()
    after = operator.get(PAGE).content.decode()
    assert "fleets/edge/end/" not in after
    refused = operator.post(f"{PAGE}token/", {"fleet": "edge"})
    assert (refused.status_code, "is over" in refused.content.decode()) == (422, True)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"name": "Edge!"}, "id_fleet_name_error"),
        ({"pattern": "*-*"}, "id_fleet_pattern_error"),
        ({"most": 0}, "id_fleet_most_error"),
        ({"ends": "2001-01-01T00:00"}, "ends in the future"),
        ({"overlay": "z"}, "id_fleet_overlay_error"),
    ],
)
def test_what_is_wrong_stands_beside_it(
    said: dict[str, object], shown: str, world: World, browsers: dict[str, Client]
) -> None:
    answer = browsers["operator"].post(PLACE, edge(**said))
    assert answer.status_code == 422
    assert shown in answer.content.decode()
    assert not Fleet.objects.exists()


def test_fleets_are_for_operators(world: World, browsers: dict[str, Client]) -> None:
    browsers["operator"].post(PLACE, edge())
    for standing in ("manager", "auditor", "stranger"):
        browser = browsers[standing]
        assert "edge-*" not in browser.get(PAGE).content.decode()
        assert browser.post(PLACE, edge(name="other")).status_code == 403
        assert browser.post(f"{PLACE}edge/end/", {"version": 1}).status_code == 403
        assert browser.post(f"{PAGE}token/", {"fleet": "edge"}).status_code == 404
    assert browsers["anonymous"].post(PLACE, edge()).status_code == 302
    assert Fleet.objects.count() == 1
    assert not EnrolmentToken.objects.exists()
    assert browsers["operator"].post(f"{PLACE}none/end/", {"version": 1}).status_code == 404
