"""Roles, rules and appointments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.core.errors import InUse, Invalid
from adminapp.roles import selectors, services
from adminapp.roles.models import Appointment
from tests.support.control_plane import World


def create(world: World, name: str, *rules: dict[str, Any]) -> None:
    services.create_role(actor=world.manager, domain=world.flights, name=name, rules=rules)


def test_rules_chain(world: World) -> None:
    create(world, "partner", {"prerequisites": ["airline"], "appointments": ["trusted"]})
    create(world, "idle")
    create(world, "either", {"prerequisites": ["partner"]}, {"appointments": ["guest"]})
    assert selectors.active_roles(world.united) == {"airline"}
    services.appoint(actor=world.manager, principal=world.united, name="trusted")
    assert selectors.active_roles(world.united) == {"airline", "partner", "either"}
    services.appoint(actor=world.manager, principal=world.airport, name="guest")
    assert selectors.active_roles(world.airport) == {"either"}
    services.end_appointment(actor=world.manager, appointment=world.appointment)
    assert selectors.active_roles(world.united) == frozenset()  # the fall cascades


@pytest.mark.parametrize(
    ("rules", "pointer"),
    [
        ([{"prerequisites": ["nobody"]}], "/rules/0/prerequisites/0"),
        ([{"prerequisites": "airline"}], "/rules/0/prerequisites"),
        ([{}, {"appointments": ["a b"]}], "/rules/1/appointments/0"),
        ([{"constraints": "env.hour >="}], "/rules/0/constraints/0"),
        ([{"members": []}], "/rules/0/members"),
    ],
)
def test_wrong_rules(rules: list[dict[str, Any]], pointer: str, world: World) -> None:
    with pytest.raises(Invalid) as failure:
        create(world, "new", *rules)
    assert failure.value.problems[0].pointer == pointer
    assert not world.flights.roles.filter(name="new").exists()


def test_roles_that_need_one_another_are_refused(world: World) -> None:
    create(world, "partner", {"prerequisites": ["airline"]})
    with pytest.raises(Invalid, match="cycle"):
        services.update_role(
            actor=world.manager, role=world.airline, data={}, rules=[{"prerequisites": ["partner"]}]
        )
    with pytest.raises(InUse):
        services.delete_role(actor=world.manager, role=world.airline)


def test_a_constraint_on_what_was_never_set_is_not_met(world: World) -> None:
    create(world, "night", {"constraints": "env.shift >= 22"})
    assert "night" not in selectors.active_roles(world.united)


def test_appointments_have_a_time(world: World) -> None:
    now = timezone.now()
    services.appoint(
        actor=world.manager,
        principal=world.airport,
        name="licensed",
        starts=now + timedelta(hours=1),
        ends=now + timedelta(hours=2),
    )
    active = {
        hours: selectors.active_roles(world.airport, at=now + timedelta(hours=hours))
        for hours in (0, 1, 1.5, 2)
    }
    assert active == {0: set(), 1: {"airline"}, 1.5: {"airline"}, 2: set()}
    with pytest.raises(Invalid, match="after the beginning"):
        services.appoint(
            actor=world.manager, principal=world.airport, name="x", starts=now, ends=now
        )


def test_an_appointment_ends_once_and_before_it_began(world: World) -> None:
    later = services.appoint(
        actor=world.manager,
        principal=world.airport,
        name="licensed",
        starts=timezone.now() + timedelta(days=1),
    )
    ended = services.end_appointment(actor=world.manager, appointment=later)
    assert ended.starts == ended.ends
    with pytest.raises(InUse):
        services.end_appointment(actor=world.manager, appointment=ended)
    assert Appointment.objects.count() == 2
    assert world.appointment.issuer == world.manager
