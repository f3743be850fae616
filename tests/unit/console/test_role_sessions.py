"""Sessions on the page of a principal: which roles are active, and ending one."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.roles import services
from adminapp.roles.models import RoleSession
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE = "/d/flights/principals/p/United/"


def test_a_session_is_shown_and_ended(world: World, browsers: dict[str, Client]) -> None:
    manager, auditor = browsers["manager"], browsers["auditor"]
    assert "None is open." in manager.get(PAGE).content.decode()
    row = services.open_session(actor=world.manager, principal=world.united)
    place = f"{PAGE}sessions/{row.pk}/end/"
    page = manager.get(PAGE).content.decode()
    assert place in page
    assert "every role counts that could be activated" in page
    assert place not in auditor.get(PAGE).content.decode()
    assert "mona" in auditor.get(PAGE).content.decode()
    for data in ({}, {"version": 99}):
        assert "Nothing was changed" in manager.post(place, data, follow=True).content.decode()
    assert RoleSession.objects.get().closed is None
    manager.post(place, {"version": row.version})
    assert RoleSession.objects.get().closed is not None
    after = manager.get(PAGE).content.decode()
    assert place not in after
    assert "it was closed" in after


def test_sessions_of_others_are_not_there(world: World, browsers: dict[str, Client]) -> None:
    row = services.open_session(actor=world.manager, principal=world.united)
    place = f"{PAGE}sessions/{row.pk}/end/"
    for standing, status in (("auditor", 403), ("stranger", 404), ("anonymous", 302)):
        assert browsers[standing].post(place, {"version": row.version}).status_code == status
    other = place.replace("United", "JFK")
    assert browsers["manager"].post(other, {"version": row.version}).status_code == 404
    assert RoleSession.objects.get().closed is None


def test_the_page_says_when_only_sessions_count(world: World, browsers: dict[str, Client]) -> None:
    services.set_role_settings(actor=world.manager, domain=world.flights, by_session=True)
    page = browsers["auditor"].get(PAGE).content.decode()
    assert "only roles count that are active in an open session" in page
