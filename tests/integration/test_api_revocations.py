"""Every kind of revocation over the API: asked for by name, refused with a pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from adminapp.agreements import services as agreements
from adminapp.distribution.models import Revocation
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from brokers.policyctl.revoke import KINDS
from tests.support.api_rows import TERMS
from tests.support.audiences import live_authority
from tests.support.control_plane import World, key

__all__ = ["live_authority"]

pytestmark = pytest.mark.django_db
API = "/api/v1/revocations"


@pytest.fixture
def enrolled(world: World, live_authority: Path, settings: Any) -> World:
    settings.AUTHORITY_SOCKET = live_authority
    identity.register_credentials(
        actor=None, principal=world.united, sealing_key=key(50), verify_key=key(51)
    )
    return world


def bodies(world: World) -> dict[str, dict[str, Any]]:
    """By kind what is sent."""
    united = {"principal": world.united.pk}
    return {
        "principal": united,
        "appointment": {"appointment": world.appointment.pk},
        "role-holder": united | {"role": "airline"},
        "role": {"domain": "flights", "role": "airline"},
        "attribute": united | {"attribute": "carrier"},
        "client-key": united,
        "trust-group-member": {"trust_group": world.group.pk, "agent": world.alpha.pk},
        "agent": {"agent": world.alpha.pk},
    }


def post(browser: Client, body: dict[str, Any], path: str = API) -> Any:
    return browser.post(path, body, "application/json")


def test_the_command_line_knows_every_kind() -> None:
    assert set(KINDS) == set(Revocation.Kind.values)


@pytest.mark.parametrize("kind", sorted(Revocation.Kind.values))
def test_each_kind(kind: str, enrolled: World, browsers: dict[str, Client]) -> None:
    if kind == "agreement":
        row = agree(enrolled)
        body: dict[str, Any] = {"agreement": row.pk, "side": "provider"}
    else:
        body = bodies(enrolled)[kind]
    # A revocation waits for nobody's approval.
    Domain.objects.filter(pk=enrolled.flights.pk).update(approval="always")
    who = browsers["operator" if kind in {"agent", "agreement"} else "manager"]
    foreseen = post(who, {"kind": kind, **body}, f"{API}/impact")
    assert foreseen.status_code == 200, foreseen.content
    assert not Revocation.objects.exists()
    assert Agent.objects.filter(state="banned").count() == 0
    assert Appointment.objects.get().closed is None
    lost = {(line["principal"], line["type"]) for line in foreseen.json()["loses"]}
    if kind in {"principal", "appointment", "role-holder", "role", "attribute"}:
        assert ("United", "Flight") in lost
    answer = post(who, {"kind": kind, **body, "reason": "over"})
    assert answer.status_code == 202, answer.content
    shown = who.get(answer["Location"]).json()
    assert (shown["kind"], shown["state"], shown["reason"]) == (kind, "noticed", "over")
    assert shown["what"] == Revocation.objects.get().what
    assert [row["id"] for row in who.get(f"{API}?kind={kind}").json()["results"]] == [shown["id"]]


def agree(world: World) -> Any:
    roles.create_role(actor=None, domain=world.heating, name="engineer")
    row = agreements.propose_agreement(
        actor=None, provider=world.flights, consumer=world.heating, name="guests", terms=TERMS
    )
    last = row.rounds.get()
    for side in ("provider", "consumer"):
        row = agreements.accept_agreement(
            actor=None, agreement=row, number=1, digest=last.digest, side=side
        )
    return row


MISSING = {
    "principal": "/principal",
    "appointment": "/appointment",
    "role-holder": "/principal",
    "role": "/domain",
    "attribute": "/principal",
    "agreement": "/agreement",
    "client-key": "/principal",
    "agent": "/agent",
    "trust-group-member": "/trust_group",
}


@pytest.mark.parametrize("kind", sorted(Revocation.Kind.values))
def test_what_is_missing_is_pointed_at(
    kind: str, world: World, browsers: dict[str, Client]
) -> None:
    answer = post(browsers["operator"], {"kind": kind, "reason": "over"})
    assert answer.status_code == 400
    assert MISSING[kind] in {each["pointer"] for each in answer.json()["errors"]}


def test_an_agent_is_for_operators(enrolled: World, browsers: dict[str, Client]) -> None:
    body = {"kind": "agent", "agent": enrolled.alpha.pk}
    assert post(browsers["manager"], {**body, "reason": "over"}).status_code == 403
    assert post(browsers["manager"], body, f"{API}/impact").status_code == 403
    nobody = {"kind": "agent", "agent": enrolled.beta.pk}
    assert post(browsers["operator"], {**nobody, "reason": "over"}).status_code == 400
    assert not Revocation.objects.exists()


def test_an_agreement_has_two_sides(enrolled: World, browsers: dict[str, Client]) -> None:
    body = {"kind": "agreement", "agreement": agree(enrolled).pk, "reason": "over"}
    unsaid = post(browsers["operator"], body)
    assert unsaid.status_code == 400
    assert unsaid.json()["errors"][0]["pointer"] == "/side"
    assert post(browsers["manager"], body).status_code == 202
    assert Revocation.objects.get().domain == enrolled.flights
