"""Policies to define types let those who act for a principal make types below a type."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from adminapp.catalog.models import EventType
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.identity import permissions
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, User
from adminapp.policies import reach, representation, services
from adminapp.policies.defining import may_define, principals_of
from adminapp.policies.models import Policy, Representative
from tests.support.control_plane import World

API, JSON = "/api/v1", "application/json"


@pytest.fixture
def policy(world: World) -> Policy:
    return services.create_policy(
        actor=world.manager,
        domain=world.flights,
        name="schedules",
        action="define",
        event_type="Flight",
        expression='subject.role == "airline"',
    )


@pytest.fixture
def rita(world: World, policy: Policy) -> User:
    """Somebody who acts for United, which may define types below Flight."""
    rita = identity.create_user(actor=world.operator, username="rita")
    representation.represent(actor=world.manager, user=rita, principal=world.united)
    return rita


def may(user: Any, domain: Domain, key: str, below: str = "") -> bool:
    return permissions.may_change(user, domain, "event-type", key, below=below)


def test_types_below_the_policys_type_and_no_others(world: World, rita: User) -> None:
    flights = world.flights
    assert may(rita, flights, "Arrival", "Flight")
    assert may(rita, flights, "Late", "Departure")
    assert may(rita, flights, "Departure")
    assert may(rita, flights, "Departure", "Flight")
    assert not may(rita, flights, "Flight")  # what the policy stands on
    assert not may(rita, flights, "Weather")  # a tree of its own
    assert not may(rita, flights, "Departure", "Weather")
    assert not may(rita, world.heating, "Telemetry")
    assert not permissions.may_change(rita, flights, "policy", "schedules", below="Flight")
    assert permissions.may_view(rita, flights)
    assert not permissions.may_view(rita, world.heating)
    assert list(Domain.objects.visible_to(rita)) == [flights]


@pytest.mark.parametrize(
    "loss", ["role", "policy", "validity", "revoked", "ended", "signed off", "audits", "overridden"]
)
def test_what_takes_the_right_away(loss: str, world: World, rita: User, policy: Policy) -> None:
    from adminapp.roles import services as roles

    flights, mona = world.flights, world.manager
    assert may_define(rita, flights, "Arrival", "Flight")
    if loss == "role":
        roles.end_appointment(actor=mona, appointment=world.appointment)
    elif loss == "policy":
        services.update_policy(actor=mona, policy=policy, data={"enabled": False})
    elif loss == "validity":
        ended = timezone.now() - timedelta(seconds=1)
        services.update_policy(actor=mona, policy=policy, data={"valid_until": ended})
    elif loss == "revoked":
        identity.mark_revoked(actor=mona, principal=world.united)
    elif loss == "ended":
        held = Representative.objects.get()
        representation.end_representation(actor=mona, representative=held)
        assert not permissions.may_view(rita, flights)
        with pytest.raises(InUse):
            representation.end_representation(actor=mona, representative=held)
    elif loss == "signed off":
        identity.deactivate_user(actor=world.operator, user=rita)
        rita.refresh_from_db()
    elif loss == "audits":
        identity.set_membership(actor=world.operator, user=rita, domain=flights, role="auditor")
        assert principals_of(rita, flights) == []
    else:
        services.update_policy(
            actor=mona, policy=policy, data={"expression": "env.hour > 24 || env.hour < 0"}
        )
    assert not may_define(rita, flights, "Arrival", "Flight")
    assert not may(rita, flights, "Arrival", "Flight")


def test_access_shows_who_may_define_and_advertise(world: World, policy: Policy) -> None:
    services.create_policy(
        actor=world.manager,
        domain=world.flights,
        name="airports",
        action="advertise",
        event_type="Departure",
        expression="true",
    )
    found = reach.take(world.flights).effective()
    lines = [(line.principal, line.action, line.type, line.attributes) for line in found]
    assert ("United", "define", "Flight", ()) in lines
    assert ("United", "define", "Departure", ()) in lines
    assert [line for line in lines if line[1] == "advertise"] == [
        ("JFK", "advertise", "Departure", ()),
        ("United", "advertise", "Departure", ()),
    ]


def test_who_may_represent_whom(world: World, rita: User) -> None:
    def represent(actor: User, user: User, **more: Any) -> Representative:
        return representation.represent(actor=actor, user=user, principal=world.airport, **more)

    with pytest.raises(Forbidden):
        represent(rita, world.stranger)
    for user, fields, pointer in (
        (world.auditor, {}, "/user"),
        (rita, {"ends": timezone.now() - timedelta(days=1)}, "/ends"),
    ):
        with pytest.raises(Invalid) as failure:
            represent(world.manager, user, **fields)
        assert failure.value.problems[0].pointer == pointer
    held = represent(world.manager, rita, ends=timezone.now() + timedelta(hours=1))
    with pytest.raises(Conflict):
        representation.end_representation(
            actor=world.manager, representative=held, expected_version=9
        )
    with pytest.raises(Invalid, match="acts for the principal already"):
        representation.represent(actor=world.manager, user=rita, principal=world.united)
    with pytest.raises(IntegrityError), transaction.atomic():
        Representative.objects.create(user=rita, principal=world.united)
    with pytest.raises(IntegrityError), transaction.atomic():
        Representative.objects.create(
            user=rita, principal=world.airport, ends=timezone.now() - timedelta(days=1)
        )
    identity.mark_revoked(actor=world.manager, principal=world.airport)
    with pytest.raises(Invalid, match="was revoked"):
        represent(world.manager, rita)


def test_defining_through_the_api(world: World, rita: User) -> None:
    browser = Client()
    browser.force_login(rita, backend="adminapp.identity.backends.ThrottledBackend")
    body = {"domain": "flights", "name": "Arrival", "parent": "Flight"}
    made = browser.post(f"{API}/event-types", body, JSON)
    assert made.status_code == 201
    url, tag = made["Location"], made["ETag"]
    assert browser.patch(url, {"title": "A"}, JSON, headers={"If-Match": tag}).status_code == 200
    root = browser.post(f"{API}/event-types", {"domain": "flights", "name": "Weather"}, JSON)
    assert root.status_code == 403
    flight = f"{API}/event-types/{world.flight.pk}"
    refused = browser.patch(flight, {"title": "F"}, JSON, headers={"If-Match": "*"})
    assert refused.status_code == 403
    gone = browser.delete(url, headers={"If-Match": '"2"'})
    assert gone.status_code == 204
    assert not EventType.objects.filter(name="Arrival").exists()


def test_representatives_through_the_api(
    world: World, rita: User, browsers: dict[str, Client]
) -> None:
    url = f"{API}/representatives"
    body = {"principal": world.airport.pk, "user": "rita"}
    codes = {name: browsers[name].post(url, body, JSON).status_code for name in browsers}
    assert codes == {
        "anonymous": 401,
        "operator": 201,
        "manager": 400,  # it is so already
        "auditor": 403,
        "stranger": 400,
    }
    (first, second) = browsers["auditor"].get(url).json()["results"]
    assert (first["principal_name"], second["principal_name"]) == ("United", "JFK")
    assert browsers["stranger"].get(url).json()["results"] == []
    missing = browsers["manager"].post(url, {"principal": 999999, "user": "rita"}, JSON)
    assert missing.json()["errors"][0]["pointer"] == "/principal"
    nobody = browsers["manager"].post(url, {**body, "user": "nobody"}, JSON)
    assert nobody.json()["errors"][0]["pointer"] == "/user"
    place = f"{url}/{second['id']}"
    match = {"If-Match": '"1"'}
    for standing, code in (
        ("anonymous", 401),
        ("stranger", 404),
        ("auditor", 403),
        ("manager", 204),
    ):
        assert browsers[standing].delete(place, headers=match).status_code == code
    assert browsers["auditor"].get(place).json()["ends"] is not None
