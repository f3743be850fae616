"""Policies: versions, effective access, and what a change would do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.catalog import services as catalog
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.identity import services as identity
from adminapp.outbox.models import OutboxRow
from adminapp.policies import reach, selectors, services
from adminapp.policies.access import Access
from adminapp.policies.models import Policy, PolicyVersion
from adminapp.roles import services as roles
from adminapp.roles.selectors import subject_values, subject_values_of
from tests.support.control_plane import World


def lines(world: World, **more: Any) -> list[tuple[str, str, str, tuple[str, ...], str]]:
    return [
        (line.principal, line.action, line.type, line.attributes, line.condition)
        for line in reach.take(world.flights, **more).effective()
    ]


ALL = ("carrier", "origin", "tail")
OWN = "where event.carrier is UA"


def test_effective_access_of_the_sample(world: World) -> None:
    assert lines(world) == [
        ("United", "subscribe", "Departure", (*ALL, "delay"), OWN),
        ("United", "subscribe", "Flight", ALL, OWN),
    ]


def test_what_takes_access_away(world: World) -> None:
    now = timezone.now()
    assert lines(world, at=now - timedelta(days=1)) == []  # not appointed yet
    roles.end_appointment(actor=world.manager, appointment=world.appointment)
    assert lines(world) == []


def test_a_policy_that_is_off_or_not_valid_grants_nothing(world: World) -> None:
    now = timezone.now()
    for data in (
        {"enabled": False},
        {"enabled": True, "valid_from": now + timedelta(hours=1)},
        {"valid_from": None, "valid_until": now - timedelta(hours=1)},
    ):
        services.update_policy(actor=world.manager, policy=world.policy, data=data)
        assert lines(world) == []
    services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={"valid_from": now - timedelta(hours=1), "valid_until": now + timedelta(hours=1)},
    )
    assert len(lines(world)) == 2
    assert selectors.next_boundary(world.flights, after=now) == now + timedelta(hours=1)


def test_a_revoked_principal_has_no_access(world: World) -> None:
    identity.mark_revoked(actor=world.manager, principal=world.united)
    assert lines(world) == []


def test_restriction_and_several_conditions(world: World) -> None:
    services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={
            "event_type": "Departure",
            "expression": 'event.delay > 120 || event.origin in ["JFK", "LGA"]',
            "attributes": ["delay", "origin"],
        },
    )
    assert [line[1:] for line in lines(world) if line[0] == "United"] == [
        ("subscribe", "Departure", ("origin", "delay"), "where event.delay is above 120"),
        ("subscribe", "Departure", ("origin", "delay"), "where event.origin is one of JFK, LGA"),
    ]


def test_subject_values_name_each_thing_once(world: World) -> None:
    wanted = [("subject.carrier", "UA"), ("subject.role.airline", True)]
    assert subject_values(world.united) == (wanted,)
    both = subject_values_of(world.flights, [world.united, world.airport])
    assert both == {world.united.pk: (wanted,), world.airport.pk: ([],)}


def test_effective_access_asks_the_database_a_constant_number_of_times(world: World) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            list(reach.take(world.flights).effective())
        return len(captured)

    few = asked()
    for number in range(10):
        identity.create_principal(
            actor=None,
            domain=world.flights,
            name=f"P{number}",
            kind="subscriber",
            attributes={"carrier": "AA"},
        )
    assert asked() == few


# -- versions --------------------------------------------------------------------------------


def test_every_state_is_kept_and_can_come_back(world: World) -> None:
    policy = services.update_policy(
        actor=world.manager,
        policy=world.policy,
        data={"expression": "true", "valid_until": timezone.now() + timedelta(days=1)},
    )
    services.update_policy(actor=world.operator, policy=policy, data={"valid_until": None})
    kept = PolicyVersion.objects.filter(policy=policy)
    assert [(row.number, row.actor) for row in kept] == [
        (1, world.manager),
        (2, world.manager),
        (3, world.operator),
    ]
    restored = services.restore_policy_version(actor=world.manager, policy=policy, number=2)
    assert (restored.version, restored.expression) == (4, "true")
    assert restored.valid_until is not None
    snapshots = list(kept.values_list("snapshot", flat=True))
    assert snapshots[3] == snapshots[1]
    with pytest.raises(Invalid, match="no version 9"):
        services.restore_policy_version(actor=world.manager, policy=policy, number=9)


def test_an_old_version_must_still_fit_the_model(world: World) -> None:
    services.update_policy(actor=world.manager, policy=world.policy, data={"expression": "true"})
    roles.delete_role(actor=world.manager, role=world.airline)
    with pytest.raises(Invalid, match="no known role"):
        services.restore_policy_version(actor=world.manager, policy=world.policy, number=1)
    assert Policy.objects.get().expression == "true"


def test_a_stale_version_is_refused(world: World) -> None:
    services.update_policy(
        actor=world.manager, policy=world.policy, data={"title": "one"}, expected_version=1
    )
    with pytest.raises(Conflict) as failure:
        services.update_policy(
            actor=world.manager, policy=world.policy, data={"title": "two"}, expected_version=1
        )
    assert (failure.value.expected, failure.value.current) == (1, 2)
    services.delete_policy(actor=world.manager, policy=world.policy, expected_version=2)
    with pytest.raises(Conflict):
        services.update_policy(actor=world.manager, policy=world.policy, data={"title": "x"})


def test_names_and_types_are_checked(world: World) -> None:
    def create(**fields: Any) -> Policy:
        wanted = {
            "name": "new",
            "action": "publish",
            "event_type": "Flight",
            "expression": "true",
        } | fields
        return services.create_policy(actor=world.manager, domain=world.flights, **wanted)

    for fields, pointer in (
        ({"event_type": "Flihgt"}, "/event_type"),
        ({"name": "own flights"}, ""),
        ({"name": "a/b"}, "/name"),
        ({"action": "erase"}, "/action"),
        ({"expression": ""}, "/expression"),
    ):
        with pytest.raises(Invalid) as failure:
            create(**fields)
        assert failure.value.problems[0].pointer == pointer
    foreign = catalog.create_event_type(actor=None, domain=world.heating, name="Telemetry")
    with pytest.raises(Invalid):
        create(event_type=foreign)
    now = timezone.now()
    with pytest.raises(Invalid, match="after the beginning"):
        create(valid_from=now, valid_until=now)


def test_the_model_cannot_be_changed_under_a_policy(world: World) -> None:
    with pytest.raises(InUse, match="own flights"):
        roles.delete_role(actor=world.manager, role=world.airline)
    with pytest.raises(InUse):
        catalog.delete_event_type(actor=world.manager, event_type=world.flight)
    with pytest.raises(InUse, match="United"):
        catalog.delete_subject_attribute(
            actor=world.manager, subject_attribute=world.flights.subject_attributes.get()
        )
    with pytest.raises(Invalid, match="own flights"):
        catalog.update_event_type(
            actor=world.manager, event_type=world.flight, data={}, attributes=[]
        )
    assert world.flight.attributes.count() == 3


# -- plans -----------------------------------------------------------------------------------


def plan(world: World, data: dict[str, Any] | None, policy: Policy | None = None) -> services.Plan:
    before = OutboxRow.objects.count(), PolicyVersion.objects.count()
    made = services.plan_policy_change(
        actor=world.manager, domain=world.flights, policy=policy, data=data
    )
    assert (OutboxRow.objects.count(), PolicyVersion.objects.count()) == before
    return made


def brief(found: tuple[Access, ...]) -> list[tuple[str, str, tuple[str, ...], str]]:
    return [(line.principal, line.type, line.attributes, line.condition) for line in found]


def test_a_plan_of_a_new_policy(world: World) -> None:
    made = plan(
        world,
        {
            "name": "delays",
            "action": "subscribe",
            "event_type": "Departure",
            "expression": 'subject.carrier == "UA"',
            "attributes": ["carrier", "delay"],
        },
    )
    assert brief(made.gains) == [("United", "Departure", ("carrier", "delay"), "")]
    assert made.losses == ()
    assert made.agents == ("alpha", "gamma")
    assert made.encodings == 2
    assert made.problems == ()
    world.flights.refresh_from_db()
    assert made.revision == world.flights.revision


def test_a_plan_of_a_narrower_policy(world: World) -> None:
    made = plan(world, {"attributes": ["carrier"]}, world.policy)
    assert made.gains == ()
    assert brief(made.losses) == [
        ("United", "Departure", ("delay", "origin", "tail"), OWN),
        ("United", "Flight", ("origin", "tail"), OWN),
    ]


def test_a_plan_that_lifts_a_condition(world: World) -> None:
    made = plan(world, {"expression": 'subject.role == "airline"'}, world.policy)
    assert [line[3] for line in brief(made.gains)] == ["", ""]
    assert [line[3] for line in brief(made.losses)] == []  # always includes sometimes


def test_a_plan_to_delete_or_switch_off(world: World) -> None:
    for data in (None, {"enabled": False}):
        made = plan(world, data, world.policy)
        assert made.gains == ()
        assert {line.principal for line in made.losses} == {"United"}
        assert made.encodings == 0


def test_a_plan_with_problems(world: World) -> None:
    made = plan(world, {"expression": "subject.carrier =="}, world.policy)
    assert made.gains == made.losses == ()
    (problem,) = made.problems
    assert (problem.pointer, problem.kind, problem.position) == ("/expression", "syntax", 18)


def test_a_plan_counts_a_join_once_for_each_known_value(world: World) -> None:
    for name, carrier in (("Delta", "DL"), ("Delta Cargo", "DL")):
        identity.create_principal(
            actor=None,
            domain=world.flights,
            name=name,
            kind="subscriber",
            attributes={"carrier": carrier},
        )
    made = plan(world, {"title": "same"}, world.policy)
    assert made.encodings == 2 * 2  # UA and DL, at two agents
    assert made.gains == made.losses == ()


def test_only_those_who_may_change_may_plan(world: World) -> None:
    for actor in (world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            services.plan_policy_change(actor=actor, domain=world.flights, data=None)
