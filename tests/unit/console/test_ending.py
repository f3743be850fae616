"""The pages that revoke anything but a principal: what it would do, then the name, then it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from adminapp.distribution.models import Notice, Revocation
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Principal
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from tests.support.audiences import live_authority
from tests.support.control_plane import World, key

__all__ = ["live_authority"]

pytestmark = pytest.mark.django_db
NEW = "/d/flights/revocations/new/"


@pytest.fixture
def enrolled(world: World, live_authority: Path, settings: Any) -> World:
    """The world with clients that have keys, and an authority that makes more."""
    settings.AUTHORITY_SOCKET = live_authority
    for number, principal in enumerate((world.united, world.airport), start=50):
        identity.register_credentials(
            actor=None, principal=principal, sealing_key=key(number), verify_key=key(number + 1)
        )
    return world


def named(world: World) -> dict[str, tuple[dict[str, Any], str]]:
    """By kind what its address says, and the name that is typed."""
    return {
        "appointment": ({"appointment": world.appointment.pk}, "United"),
        "role-holder": ({"principal": "United", "role": "airline"}, "United"),
        "role": ({"role": "airline"}, "airline"),
        "attribute": ({"principal": "United", "attribute": "carrier"}, "United"),
        "client-key": ({"principal": "United"}, "United"),
        "trust-group-member": ({"trust_group": "handlers", "agent": "alpha"}, "alpha"),
    }


KINDS = ["appointment", "role-holder", "role", "attribute", "client-key", "trust-group-member"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_shown_first_and_done_with_its_name(
    kind: str, enrolled: World, browsers: dict[str, Client]
) -> None:
    query, name = named(enrolled)[kind]
    address = f"{NEW}?{urlencode({'kind': kind, **query})}"
    manager = browsers["manager"]
    shown = manager.get(address).content.decode()
    assert "Nothing is changed yet" in shown
    if kind in {"appointment", "role-holder", "role"}:
        assert "subscribe Flight" in shown
    assert not Revocation.objects.exists()
    wrong = manager.post(address, {"reason": "over", "confirm": "somebody"})
    assert wrong.status_code == 422
    assert not Revocation.objects.exists()
    done = manager.post(address, {"reason": "over", "confirm": name})
    made = Revocation.objects.get()
    assert done.status_code == 302
    assert done["Location"] == f"/d/flights/revocations/{made.uid}/"
    assert (made.kind, made.reason) == (kind, "over")
    page = manager.get(done["Location"])
    assert made.what in page.content.decode()
    assert made.what in manager.get("/d/flights/revocations/").content.decode()
    assert Notice.objects.exists()


def test_what_cannot_be_revoked_says_why(enrolled: World, browsers: dict[str, Client]) -> None:
    roles.end_appointment(actor=None, appointment=Appointment.objects.get())
    address = f"{NEW}?kind=appointment&appointment={enrolled.appointment.pk}"
    page = browsers["manager"].get(address)
    assert page.status_code == 200
    assert "has ended already" in page.content.decode()
    answer = browsers["manager"].post(address, {"reason": "over", "confirm": "United"})
    assert answer.status_code == 409


@pytest.mark.parametrize(
    "query",
    [
        "",
        "kind=principal",
        "kind=agent",
        "kind=appointment&appointment=x",
        "kind=appointment&appointment=999999",
        "kind=agreement&agreement=1",
        "kind=role&role=none",
        "kind=trust-group-member&trust_group=handlers&agent=beta",
    ],
)
def test_what_is_not_there(query: str, world: World, browsers: dict[str, Client]) -> None:
    assert browsers["manager"].get(f"{NEW}?{query}").status_code == 404


def test_an_agent_is_for_operators(enrolled: World, browsers: dict[str, Client]) -> None:
    address = "/agents/alpha/revoke/"
    assert browsers["manager"].get(address).status_code == 403
    assert "gets" in browsers["operator"].get(address).content.decode()
    done = browsers["operator"].post(address, {"reason": "stolen", "confirm": "alpha"})
    assert done.status_code == 302
    assert Agent.objects.get(name="alpha").state == "banned"
    assert Revocation.objects.get().kind == "agent"
    # beta serves nobody, so there is nothing to replace
    assert browsers["operator"].get("/agents/beta/revoke/").status_code == 302


def test_pages_offer_what_can_be_revoked(enrolled: World, browsers: dict[str, Client]) -> None:
    principal = browsers["manager"].get("/d/flights/principals/p/United/").content.decode()
    for kind in ("appointment", "role-holder", "attribute", "client-key"):
        assert f"kind={kind}&amp;" in principal
    assert (
        "kind=role&amp;role=airline"
        in browsers["manager"].get("/d/flights/roles/").content.decode()
    )
    keys = browsers["manager"].get("/d/flights/keys/").content.decode()
    assert "kind=trust-group-member&amp;trust_group=handlers&amp;agent=alpha" in keys
    assert "/agents/alpha/revoke/" in browsers["operator"].get("/agents/alpha/").content.decode()
    read = browsers["auditor"].get("/d/flights/principals/p/United/").content.decode()
    assert "kind=" not in read


def test_an_attributes_end_does_not_show_as_the_end_of_the_principal(
    enrolled: World, browsers: dict[str, Client]
) -> None:
    address = f"{NEW}?kind=attribute&principal=United&attribute=carrier"
    browsers["manager"].post(address, {"reason": "over", "confirm": "United"})
    assert Principal.objects.get(name="United").attributes == {}
    page = browsers["manager"].get("/d/flights/principals/p/United/").content.decode()
    assert "Its rights were ended" not in page
