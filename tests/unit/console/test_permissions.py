"""Who sees which page, and who may press what: operator, manager, auditor, stranger, anonymous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, resolve

from adminapp.changes.models import ChangeSet
from adminapp.console import urls
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
Browsers = dict[str, Client]

READING = (
    "/d/flights/",
    "/d/flights/event-types/",
    "/d/flights/event-types/Flight/",
    "/d/flights/keys/",
    "/d/flights/policies/",
    "/d/flights/policies/p/own flights/",
    "/d/flights/policies/p/own flights/history/",
    "/d/flights/policies/p/own flights/broker/",
    "/d/flights/principals/",
    "/d/flights/principals/p/United/",
    "/d/flights/imports/",
    "/d/flights/roles/",
    "/d/flights/classification/",
    "/d/flights/splits/",
    "/d/flights/splits/Flight/",
    "/d/flights/agreements/",
    "/d/flights/risks/",
    "/d/flights/rollouts/",
    "/d/flights/revocations/",
    "/d/flights/jobs/",
    "/d/flights/change-sets/",
)
EDITING = (
    "/d/flights/event-types/Flight/edit/",
    "/d/flights/policies/new/",
    "/d/flights/policies/p/own flights/edit/",
    "/d/flights/policies/p/own flights/delete/",
    "/d/flights/policies/attributes/",
    "/d/flights/principals/new/",
    "/d/flights/principals/p/United/edit/",
    "/d/flights/principals/p/United/revoke/",
    "/d/flights/revocations/new/?kind=role&role=airline",
)
CHANGING = (
    "/d/flights/event-types/Flight/save/",
    "/d/flights/keys/renew/",
    "/d/flights/imports/new/",
    "/d/flights/imports/1/stop/",
    "/d/flights/risks/1/withdraw/",
    "/d/flights/principals/p/United/sessions/1/end/",
    "/d/flights/keys/rotations/",
    "/d/flights/keys/rotations/1/remove/",
    "/d/flights/trust-groups/handlers/",
    "/d/flights/policies/check/",
    "/d/flights/policies/new/plan/",
    "/d/flights/policies/new/apply/",
    "/d/flights/policies/p/own flights/plan/",
    "/d/flights/policies/p/own flights/apply/",
    "/d/flights/policies/p/own flights/restore/1/",
    "/d/flights/policies/p/own flights/deleted/",
    "/d/flights/principals/new/",
    "/d/flights/principals/p/United/edit/",
    "/d/flights/principals/p/United/revoke/",
    "/d/flights/revocations/new/?kind=role&role=airline",
    "/d/flights/principals/p/United/appoint/",
    "/d/flights/principals/p/United/by-filters/",
    "/d/flights/principals/p/United/by-policies/",
    "/d/flights/principals/p/United/appointments/{appointment}/end/",
    "/d/flights/classification/{attribute}/",
    "/d/flights/splits/Flight/save/",
    "/d/flights/splits/Flight/remove/",
    "/d/flights/jobs/count/",
    "/d/flights/rollouts/1/abort/",
    "/d/flights/rollouts/plan/",
    "/d/flights/rollouts/plan/end/",
    "/d/flights/change-sets/{change_set}/plan/",
    "/d/flights/change-sets/{change_set}/approve/",
)
OWN = (
    "/",
    "/domains/",
    "/agents/",
    "/agents/alpha/",
    "/enrolments/",
    "/root/",
    "/audit/",
    "/settings/",
    "/search/?q=own",
)


def filled(address: str, world: World) -> str:
    attribute = world.flight.attributes.first()
    assert attribute is not None
    change_set = ChangeSet.objects.filter(domain=world.flights).latest("pk")
    return address.format(
        appointment=world.appointment.pk, attribute=attribute.pk, change_set=change_set.pk
    )


def test_anonymous_callers_are_sent_to_sign_in(browsers: Browsers) -> None:
    for address in (*READING, *EDITING, *OWN):
        response = browsers["anonymous"].get(address)
        assert response.status_code == 302, address
        assert response["Location"].startswith("/sign-in/"), address


def test_a_part_of_a_page_takes_the_whole_page_to_sign_in(browsers: Browsers) -> None:
    response = browsers["anonymous"].get(
        "/agents/?part=rows",
        headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/agents/"},
    )
    assert response.status_code == 204
    assert response["HX-Redirect"] == "/sign-in/?next=%2Fagents%2F"


@pytest.mark.parametrize("standing", ["operator", "manager", "auditor"])
def test_members_read_everything(browsers: Browsers, standing: str) -> None:
    for address in (*READING, *OWN):
        assert browsers[standing].get(address).status_code == 200, address


def test_a_domain_does_not_exist_for_strangers(browsers: Browsers) -> None:
    for address in (*READING, *EDITING):
        assert browsers["stranger"].get(address).status_code == 404, address


def test_strangers_change_nothing(browsers: Browsers, world: World) -> None:
    for address in CHANGING:
        response = browsers["stranger"].post(filled(address, world), {"version": 1})
        assert response.status_code == 404, address


def test_managers_open_every_form_and_auditors_none(browsers: Browsers) -> None:
    for address in EDITING:
        assert browsers["manager"].get(address).status_code == 200, address
        assert browsers["auditor"].get(address).status_code == 403, address


def test_auditors_are_refused_by_the_server(browsers: Browsers, world: World) -> None:
    world.flights.refresh_from_db()
    revision = world.flights.revision
    for address in CHANGING:
        response = browsers["auditor"].post(filled(address, world), {"version": 1})
        assert response.status_code == 403, address
        assert b"Nothing was changed" in response.content, address
    world.flights.refresh_from_db()
    assert world.flights.revision == revision


def test_auditors_see_no_button_that_changes_something(browsers: Browsers) -> None:
    for address in READING:
        main = browsers["auditor"].get(address).content.decode().split("<main", 1)[1]
        assert 'method="post"' not in main, address
        for editing in EDITING:
            assert f'href="{editing.replace(" ", "%20")}' not in main, address


def test_changes_are_posts(browsers: Browsers, world: World) -> None:
    for address in CHANGING:
        if address not in EDITING:  # else the form stands at the same address
            assert browsers["manager"].get(filled(address, world)).status_code == 405, address


def test_changes_need_a_token_against_forgery(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.manager, backend="adminapp.identity.backends.ThrottledBackend")
    for address in CHANGING:
        response = client.post(filled(address, world), {"version": 1})
        assert response.status_code == 403, address
        assert b"too old" in response.content, address


def test_every_address_of_a_domain_is_listed_here(world: World) -> None:
    """A new page cannot be forgotten in the lists above."""
    listed = {_name(filled(address, world)) for address in (*READING, *EDITING, *CHANGING)}
    with_identifiers = {"revocation", "revocation-receipt", "job", "change-set", "key-epoch-end"}
    with_identifiers |= {"agreement", "agreement-decide", "import", "import-report", "alias-burn"}
    assert _names(urls._of_domain) == listed | with_identifiers


def _name(address: str) -> str:
    return resolve(address.partition("?")[0]).url_name or ""


def _names(patterns: Iterable[Any]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found |= _names(pattern.url_patterns)
        else:
            found.add(pattern.name)
    return found


def test_only_operators_ban_agents(browsers: Browsers, world: World) -> None:
    data = {"state": "banned", "version": world.alpha.version}
    assert browsers["manager"].post("/agents/alpha/state/", data).status_code == 403
    world.alpha.refresh_from_db()
    assert world.alpha.state == "active"
    assert browsers["operator"].post("/agents/alpha/state/", data).status_code == 302
    world.alpha.refresh_from_db()
    assert world.alpha.state == "banned"


def test_a_token_belongs_to_its_user_alone(browsers: Browsers, world: World) -> None:
    made = browsers["manager"].post(
        "/settings/tokens/", {"name": "report", "scopes": ["read"], "days": 30}
    )
    assert b"pct_" in made.content
    token = world.manager.tokens.get()
    refused = browsers["auditor"].post(f"/settings/tokens/{token.pk}/revoke/", {"version": 1})
    assert refused.status_code == 404
    done = browsers["manager"].post(f"/settings/tokens/{token.pk}/revoke/", {"version": 1})
    assert done.status_code == 302
    assert not world.manager.tokens.exists()


def test_the_audit_shows_a_member_its_own_domains_only(browsers: Browsers) -> None:
    page = browsers["stranger"].get("/audit/").content.decode()
    assert "heating" in page
    assert "own flights" not in page


def test_search_finds_only_what_one_may_see(browsers: Browsers) -> None:
    assert b"own flights" in browsers["auditor"].get("/search/?q=own").content
    assert b"Nothing found" in browsers["stranger"].get("/search/?q=own").content
