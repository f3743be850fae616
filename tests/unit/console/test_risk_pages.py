"""Accepted risks where they are read: on the page of the type, and all of a domain."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.catalog.models import RiskAcceptance
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE, TYPE = "/d/flights/risks/", "/d/flights/event-types/Flight/"


def accepted(world: World, attribute: str, days: int) -> RiskAcceptance:
    return RiskAcceptance.objects.create(
        event_type=world.flight,
        attribute=attribute,
        pia_class="confidential",
        protection="order-preserving",
        justification=f"ranges of {attribute} are asked for",
        accepted_by="the board",
        until=timezone.now() + timedelta(days=days),
    )


def test_risks_stand_with_their_ends(world: World, browsers: dict[str, Client]) -> None:
    auditor = browsers["auditor"]
    assert "No risk is accepted" in auditor.get(PAGE).content.decode()
    assert "Accepted risks</h2>" not in auditor.get(TYPE).content.decode()
    accepted(world, "origin", 200)
    accepted(world, "carrier", 3)
    accepted(world, "tail", -1)
    page = auditor.get(PAGE).content.decode()
    order = [page.index(f"ranges of {name} are") for name in ("tail", "carrier", "origin")]
    assert order == sorted(order)
    for word in ("ends soon", "holds", "over", "the board"):
        assert word in page
    assert 'method="post"' not in page.split("<main", 1)[1]
    own = auditor.get(TYPE).content.decode()
    assert "Accepted risks</h2>" in own
    assert "ranges of tail are asked for" in own
    assert "ranges of" not in auditor.get(f"{TYPE.replace('Flight', 'Departure')}").content.decode()


def test_a_risk_is_taken_back(world: World, browsers: dict[str, Client]) -> None:
    row = accepted(world, "origin", 20)
    place, manager = f"{PAGE}{row.pk}/withdraw/", browsers["manager"]
    assert place in manager.get(PAGE).content.decode()
    for data in ({}, {"version": 99}):
        assert "Nothing was changed" in manager.post(place, data, follow=True).content.decode()
    for standing, status in (("auditor", 403), ("stranger", 404), ("anonymous", 302)):
        assert browsers[standing].post(place, {"version": row.version}).status_code == status
    assert RiskAcceptance.objects.exists()
    done = manager.post(place, {"version": row.version}, follow=True)
    assert "is no more" in done.content.decode()
    assert not RiskAcceptance.objects.exists()
