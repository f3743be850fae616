"""Pages of change sets: what waits is shown and decided, and reached from where it was asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from adminapp.changes import services
from adminapp.changes.models import ChangeSet
from adminapp.identity import services as identity
from adminapp.identity.models import User
from adminapp.roles import services as roles
from adminapp.roles.models import Role
from tests.support.control_plane import World


@pytest.fixture
def second(world: World) -> User:
    user = identity.create_user(actor=world.operator, username="nora")
    identity.set_membership(actor=world.operator, user=user, domain=world.flights, role="manager")
    return user


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    return client


def drafted(world: World) -> ChangeSet:
    document = {
        "name": "more", "action": "subscribe", "event_type": "Flight",
        "expression": 'subject.carrier == "UA"',
    }  # fmt: skip
    operations: list[dict[str, Any]] = [{"op": "put", "kind": "policy", "document": document}]
    row = services.draft(
        actor=world.manager, domain=world.flights, operations=operations, message="more flights"
    )
    services.plan(actor=world.manager, change_set=row)
    row.refresh_from_db()
    return row


def test_a_plan_is_shown_with_what_it_would_do(world: World) -> None:
    row = drafted(world)
    page = browser(world.manager).get(f"/d/flights/change-sets/{row.pk}/")
    text = page.content.decode()
    assert page.status_code == 200
    for words in ("more flights", "create policy: more", "United", "Gained", "Apply"):
        assert words in text
    listed = browser(world.auditor).get("/d/flights/change-sets/").content.decode()
    assert "more flights" in listed
    assert (
        "Apply"
        not in browser(world.auditor).get(f"/d/flights/change-sets/{row.pk}/").content.decode()
    )


def test_an_edit_on_a_page_leads_to_the_change_set_that_waits(world: World, second: User) -> None:
    identity.update_domain(actor=None, domain=world.flights, data={"approval": "always"})
    client = browser(world.manager)
    answer = client.post(
        f"/d/flights/principals/p/{world.united.name}/appoint/", {"name": "pilot"}, follow=True
    )
    row = ChangeSet.objects.get(state="submitted")
    assert answer.redirect_chain[-1][0] == f"/d/flights/change-sets/{row.pk}/"
    assert "waits as number" in answer.content.decode()
    assert "waits for a decision" in browser(second).get("/").content.decode()
    done = browser(second).post(
        f"/d/flights/change-sets/{row.pk}/approve/",
        {"version": row.version, "comment": "fine"},
        follow=True,
    )
    assert "Approved." in done.content.decode()
    row.refresh_from_db()
    assert row.state == "applied"


def test_nobody_decides_alone_or_without_the_right(world: World, second: User) -> None:
    identity.update_domain(actor=None, domain=world.flights, data={"approval": "always"})
    with pytest.raises(Exception, match="waits as number"):
        roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = ChangeSet.objects.get(state="submitted")
    place = f"/d/flights/change-sets/{row.pk}/approve/"
    own = browser(world.manager).post(place, {"version": row.version}, follow=True)
    assert "a second person decides" in own.content.decode()
    assert browser(world.auditor).post(place, {"version": row.version}).status_code == 403
    assert browser(world.stranger).post(place, {"version": row.version}).status_code == 404
    stale = browser(second).post(place, {"version": row.version + 1}, follow=True)
    assert "Nothing was done" in stale.content.decode()
    assert not Role.objects.filter(name="pilot").exists()
