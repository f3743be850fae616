"""A small control plane to test against: two domains, people with every standing, one model.

`flights` publishes departures: a carrier and an origin (quasi-identifying), a delay, and a tail
number (identifying, under the key `tail`). `heating` belongs to somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.catalog import services as catalog
from adminapp.catalog.models import AttributeKey, EventType
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Overlay, Principal, User
from adminapp.policies import remembered
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import TrustGroup
from policyengine.primitives.canonical import b64
from tests.support.kept_rows import KeptRows

STANDINGS = ("operator", "manager", "auditor", "stranger")
CARRIER = {"type": "enum", "values": ["AA", "DL", "UA"]}


class FakeAuthority:
    """Makes keys that are nothing but their names."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def create_key(self, key_id: str) -> str:
        self.made.append(key_id)
        return f"wrapped {key_id}"


@dataclass
class World:
    """Everything that `world` made, by name."""

    operator: User
    manager: User
    auditor: User
    stranger: User
    flights: Domain
    heating: Domain
    overlay_a: Overlay
    overlay_b: Overlay
    alpha: Agent
    beta: Agent
    gamma: Agent
    tail: AttributeKey
    flight: EventType
    departure: EventType
    airline: Role
    united: Principal
    airport: Principal
    appointment: Appointment
    policy: Policy
    group: TrustGroup

    def user(self, standing: str) -> User:
        return getattr(self, standing)


def key(number: int) -> str:
    """A public key of the right size."""
    return b64(bytes([number]) * 32)


def attribute(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": {"type": "string"}, **more}


@pytest.fixture
def world(db: None) -> World:
    """Made by the services once, so that it is also a test of them; its rows serve later tests."""
    remembered.forget()  # another test's revisions may bear the same numbers
    if _kept.made is None:
        return _kept.make(_world)
    _kept.put_back()
    return World(**{name: model.objects.get(pk=pk) for name, (model, pk) in _kept.made.items()})


def _world() -> World:
    operator = identity.create_user(actor=None, username="olga", operator=True)
    people = {
        name: identity.create_user(actor=operator, username=name)
        for name in ("mona", "aldo", "sten")
    }
    made = {**_platform(operator), **_domains(operator, people)}
    made |= _model(people["mona"], made["flights"])
    made |= _people(people["mona"], made)
    return World(
        operator=operator,
        manager=people["mona"],
        auditor=people["aldo"],
        stranger=people["sten"],
        **made,
    )


class _Kept:
    """The world once it was made, to be put there again."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[Any, Any]] | None = None
        self._rows = KeptRows()

    def make(self, make: Callable[[], World]) -> World:
        world = self._rows.watch(make)
        self.made = {
            field.name: (type(row), row.pk)
            for field in fields(world)
            for row in [getattr(world, field.name)]
        }
        return world

    def put_back(self) -> None:
        self._rows.put_back()


_kept = _Kept()


def _platform(operator: User) -> dict[str, Any]:
    a = identity.create_overlay(actor=operator, name="a", title="Overlay A", operator="North")
    b = identity.create_overlay(actor=operator, name="b", title="Overlay B", operator="South")
    agents = {
        name: identity.register_agent(
            actor=operator, name=name, overlay=on, sealing_key=key(n), verify_key=key(n + 100)
        )
        for n, (name, on) in enumerate([("alpha", a), ("beta", a), ("gamma", b)], start=1)
    }
    return {"overlay_a": a, "overlay_b": b, **agents}


def _domains(operator: User, people: dict[str, User]) -> dict[str, Any]:
    flights = identity.create_domain(actor=operator, name="flights", title="Flights")
    heating = identity.create_domain(actor=operator, name="heating", title="Heating")
    for name, domain, role in (
        ("mona", flights, "manager"),
        ("aldo", flights, "auditor"),
        ("sten", heating, "manager"),
    ):
        identity.set_membership(actor=operator, user=people[name], domain=domain, role=role)
    return {"flights": flights, "heating": heating}


def _model(manager: User, domain: Domain) -> dict[str, Any]:
    tail = catalog.create_attribute_key(actor=manager, domain=domain, name="tail", title="Tails")
    catalog.create_subject_attribute(actor=manager, domain=domain, name="carrier", type=CARRIER)
    flight = catalog.create_event_type(
        actor=manager,
        domain=domain,
        name="Flight",
        attributes=[
            {"name": "carrier", "type": CARRIER, "pia_class": "quasi-identifying"},
            attribute("origin", pia_class="quasi-identifying"),
            attribute("tail", keys=["tail"], pia_class="identifying", pia_reason="names a plane"),
        ],
    )
    departure = catalog.create_event_type(
        actor=manager,
        domain=domain,
        name="Departure",
        parent=flight,
        attributes=[{"name": "delay", "type": {"type": "int", "min": -60, "max": 3000}}],
    )
    airline = roles.create_role(
        actor=manager, domain=domain, name="airline", rules=[{"appointments": ["licensed"]}]
    )
    return {"tail": tail, "flight": flight, "departure": departure, "airline": airline}


def _people(manager: User, made: dict[str, Any]) -> dict[str, Any]:
    domain, alpha, gamma = made["flights"], made["alpha"], made["gamma"]
    united = identity.create_principal(
        actor=manager,
        domain=domain,
        name="United",
        kind="subscriber",
        attributes={"carrier": "UA"},
        agents=[alpha, gamma],
    )
    airport = identity.create_principal(
        actor=manager, domain=domain, name="JFK", kind="publisher", agents=[alpha, gamma]
    )
    appointment = roles.appoint(actor=manager, principal=united, name="licensed")
    policy = policies.create_policy(
        actor=manager,
        domain=domain,
        name="own flights",
        action="subscribe",
        event_type=made["flight"],
        expression='subject.role == "airline" && event.carrier == subject.carrier',
    )
    group = trustgroups.create_trust_group(
        actor=manager, domain=domain, name="handlers", members=[alpha], keys=[made["tail"]]
    )
    return {
        "united": united,
        "airport": airport,
        "appointment": appointment,
        "policy": policy,
        "group": group,
    }


@pytest.fixture
def colleague(world: World) -> User:
    """Somebody who signs in and has no part in any domain."""
    return identity.create_user(actor=world.operator, username="cora")


@pytest.fixture
def delegate(world: World) -> User:
    """Somebody to whom the role `airline` and the type `Flight` are delegated for an hour."""
    dora = identity.create_user(actor=world.operator, username="dora")
    identity.delegate(
        actor=world.manager,
        user=dora,
        domain=world.flights,
        roles=["airline"],
        event_types=["Flight"],
        ends=timezone.now() + timedelta(hours=1),
    )
    return dora


@pytest.fixture
def authority() -> FakeAuthority:
    return FakeAuthority()


@pytest.fixture
def browsers(world: World) -> dict[str, Client]:
    """A signed-in client for each standing, and `anonymous`."""
    clients = {"anonymous": Client()}
    for standing in STANDINGS:
        clients[standing] = Client()
        clients[standing].force_login(
            world.user(standing), backend="adminapp.identity.backends.ThrottledBackend"
        )
    return clients
