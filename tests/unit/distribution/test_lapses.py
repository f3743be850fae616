"""Appointments that begin and lapse by themselves, and roles with parameters, at the agents."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.catalog.models import Attribute
from adminapp.distribution import services
from adminapp.distribution.models import Compilation
from adminapp.identity.models import Domain, Principal
from adminapp.policies.models import Policy
from adminapp.policies.services import create_policy
from adminapp.roles import activations
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from tests.support.audiences import Plane
from tests.unit.distribution.test_compile import event_tags, granted, home

CARRIERS, AIRPORTS = ("AA", "UA"), ("EWR", "JFK")
EVENTS = [
    {"carrier": carrier, "origin": origin}
    for carrier, origin in itertools.product(CARRIERS, AIRPORTS)
]


def declared(name: str) -> Any:
    """The type of an attribute: what is compared must be of one type."""
    return Attribute.objects.filter(name=name, event_type__domain__name="flights")[0].type


@pytest.fixture
def desks(flights: Domain) -> Domain:
    """Desks of a carrier at an airport, who receive just that; nothing else is permitted."""
    Policy.objects.filter(domain=flights, action="subscribe").update(enabled=False)
    roles.create_role(
        actor=None,
        domain=flights,
        name="desk",
        parameters=[
            {"name": "carrier", "type": declared("carrier")},
            {"name": "airport", "type": declared("origin")},
        ],
        rules=[{"role": "desk(c, p)", "appointments": ["seated(c, p)"]}],
    )
    create_policy(
        actor=None,
        domain=flights,
        name="desks",
        action="subscribe",
        event_type="Departure",
        expression="event.carrier == subject.role.desk.carrier"
        " && event.origin == subject.role.desk.airport",
    )
    return flights


def seat(name: str, *values: str, **more: Any) -> Appointment:
    principal = Principal.objects.get(name=name)
    return roles.appoint(actor=None, principal=principal, name="seated", parameters=values, **more)


def received(plane: Plane, name: str) -> set[tuple[str, str]]:
    """Carrier and airport of the events that a subscriber's agent would let through."""
    publisher = Principal.objects.get(name="jfk")
    client = plane.audiences[f"client:{publisher.handle}"].content("flights")
    principal = Principal.objects.get(name=name)
    content = home(plane, principal).agent("flights")
    handles = {each.handle for epoch in content.epochs for each in epoch.subjects}
    if principal.handle not in handles:
        return set()
    return {
        (event["carrier"], event["origin"])
        for event in EVENTS
        if granted(content, "subscribe", principal.handle, event_tags(client, "a", event))
    }


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
def test_two_activations_are_never_mixed(plane: Plane, desks: Domain, encoding: str) -> None:
    Domain.objects.filter(pk=desks.pk).update(encoding=encoding)
    seat("UA", "UA", "JFK")
    seat("UA", "AA", "EWR")
    seat("AA", "AA", "JFK")
    plane.settle()
    assert received(plane, "UA") == {("UA", "JFK"), ("AA", "EWR")}
    assert received(plane, "AA") == {("AA", "JFK")}


def test_an_appointment_lapses_at_the_agents_by_itself(
    plane: Plane, desks: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat("UA", "UA", "JFK", ends=timezone.now() + timedelta(days=1))
    plane.settle()
    assert received(plane, "UA") == {("UA", "JFK")}
    assert services.apply_due() == 0
    over = Appointment.objects.get().ends
    assert over is not None
    monkeypatch.setattr(timezone, "now", lambda: over)
    services.apply_due()
    plane.settle()
    assert received(plane, "UA") == set()
    lapses = Entry.objects.filter(action="appointment.lapsed")
    assert [entry.actor_name for entry in lapses] == ["system"]
    services.apply_due()
    plane.settle()
    assert lapses.count() == 1


def test_an_appointment_begins_by_itself(plane: Plane, desks: Domain) -> None:
    seat("UA", "UA", "JFK", starts=timezone.now() + timedelta(days=1))
    plane.settle()
    assert received(plane, "UA") == set()
    Appointment.objects.update(starts=timezone.now())
    Compilation.objects.update(at=timezone.now() - timedelta(seconds=1))
    assert services.apply_due() == 1
    assert services.apply_due() == 0  # one compile is enough
    plane.settle()
    assert received(plane, "UA") == {("UA", "JFK")}


def test_no_lease_outlives_a_lapse_that_nobody_compiled(plane: Plane, desks: Domain) -> None:
    seat("UA", "UA", "JFK", ends=timezone.now() + timedelta(days=1))
    plane.settle()
    alpha = plane.audiences["agent:alpha"]
    plane.lease_all()
    assert "flights" in alpha.leases[-1].domains
    count = len(alpha.leases)
    # It ended twenty seconds ago, after the last compile, and no worker has run since.
    end = timezone.now() - timedelta(seconds=20)
    Compilation.objects.update(at=end - timedelta(seconds=5))
    Appointment.objects.update(starts=end - timedelta(seconds=9), ends=end)
    plane.lease_all()
    assert all("flights" not in lease.domains for lease in alpha.leases[count:])
    services.apply_due()
    plane.settle()
    plane.lease_all()
    assert "flights" in alpha.leases[-1].domains


def test_who_holds_too_much_has_nothing(
    plane: Plane, desks: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activations, "MAX_VARIANTS", 3)
    for carrier, airport in itertools.product(CARRIERS, AIRPORTS):
        seat("UA", carrier, airport)
    seat("AA", "UA", "JFK")
    plane.settle()
    assert received(plane, "UA") == set()
    assert received(plane, "AA") == {("UA", "JFK")}


def ends_at(plane: Plane, agent: str) -> dict[str, int]:
    """When the rules of each policy end, as an agent is told."""
    content = plane.audiences[f"agent:{agent}"].agent("flights")
    return {rule.policy: rule.until for each in content.epochs for rule in each.rules}


def test_agents_are_told_when_a_policy_ends_or_the_clock_decides_anew(
    plane: Plane, flights: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At one moment, and far from the end of a year, whatever today is.
    now = datetime(timezone.now().year + 1, 6, 15, 12, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: now)
    end = now + timedelta(days=3)
    rows = {
        name: create_policy(
            actor=None, domain=flights, name=name, action="subscribe", event_type="Departure",
            expression=expression, **more,
        )
        for name, expression, more in (
            ("ending", 'subject.carrier == "UA"', {"valid_until": end}),
            ("this year", f'subject.carrier == "UA" && env.year == {now.year}', {}),
            ("both", 'subject.carrier == "UA" && env.weekday > 0', {"valid_until": end}),
            ("endless", 'subject.carrier == "UA" && env.weekday > 0', {}),
        )
    }  # fmt: skip
    plane.settle()
    told = ends_at(plane, "alpha")
    found = {name: told[f"policy-{row.pk}"] for name, row in rows.items()}
    year = found.pop("this year")
    assert found == {"ending": int(end.timestamp()), "both": int(end.timestamp()), "endless": 0}
    over = datetime(now.year + 1, 1, 1, tzinfo=UTC).timestamp()
    assert abs(year - over) < 86_400
    others = {policy for policy in told if told[policy] == 0}
    assert f"policy-{rows['endless'].pk}" in others
    assert len(others) > 1  # whatever has no end is as it was
