"""A manager has a client ask for the keys of its filters, on the principal's page, and back."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.audit.models import Entry
from adminapp.identity.models import Principal
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE = "/d/flights/principals/p/United/"
ASK = "Let it read by filters"
BACK = "Let it read by policies"


def shown(browser: Client) -> str:
    return browser.get(PAGE).content.decode()


def test_it_is_offered_one_way_at_a_time_and_to_managers_alone(
    world: World, browsers: dict[str, Client]
) -> None:
    assert ASK in shown(browsers["manager"])
    assert BACK not in shown(browsers["manager"])
    assert ASK not in shown(browsers["auditor"])


def test_there_and_back_is_said_and_audited_once(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    for _ in range(2):
        answer = manager.post(f"{PAGE}by-filters/")
        assert (answer.status_code, answer.headers["Location"]) == (302, PAGE)
    page = shown(manager)
    assert "its client asks for them" in page
    assert "Reads by filters" in page
    assert BACK in page
    assert ASK not in page
    for _ in range(2):
        manager.post(f"{PAGE}by-policies/")
    page = shown(manager)
    assert "without asking" in page
    assert ASK in page
    changes = Entry.objects.filter(action="reading.changed").order_by("sequence")
    assert [(each.actor_name, each.after["by_filters"]) for each in changes] == [
        ("mona", True),
        ("mona", False),
    ]


def test_a_revoked_principal_is_offered_neither(world: World, browsers: dict[str, Client]) -> None:
    Principal.objects.filter(pk=world.united.pk).update(state="revoked")
    page = shown(browsers["manager"])
    assert ASK not in page
    assert BACK not in page
