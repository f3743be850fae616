"""The environment: what is declared and set, when it changes, and what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.distribution.gather import gather
from adminapp.identity import ports
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import environment, reach, selectors, services, variables
from adminapp.policies.models import EnvironmentVariable
from tests.support.control_plane import World

JSON = "application/json"


def declare(world: World, name: str = "alarm", **more: Any) -> EnvironmentVariable:
    return variables.declare_variable(
        actor=world.manager,
        **{"domain": world.flights, "name": name, "type": {"type": "bool"}, **more},
    )


def say(world: World, row: EnvironmentVariable, value: Any) -> EnvironmentVariable:
    return variables.set_variable(actor=world.manager, variable=row, value=value)


def may(world: World, at: datetime | None = None, domain: Domain | None = None) -> tuple[str, ...]:
    return reach.take(domain or world.flights, at=at).who("subscribe", "Flight")


def change(world: World, expression: str, **more: Any) -> None:
    data = {"expression": expression, **more}
    services.update_policy(actor=world.manager, policy=world.policy, data=data)


def test_a_policy_follows_what_is_set(world: World) -> None:
    alarm = declare(world)
    change(world, 'subject.carrier == "UA" && env.alarm')
    assert may(world) == ()
    before = Domain.objects.get(pk=world.flights.pk).revision
    say(world, alarm, True)
    assert may(world) == ("United",)
    assert Domain.objects.get(pk=world.flights.pk).revision == before + 1
    say(world, alarm, True)  # no news
    assert Domain.objects.get(pk=world.flights.pk).revision == before + 1
    (plain,) = [each for each in gather(world.flights).policies if each.action == "subscribe"]
    assert [way.environment for way in plain.conjunctions] == [()]
    say(world, alarm, None)
    assert may(world) == ()
    assert gather(world.flights).policies[0].conjunctions == ()
    kept = Entry.objects.filter(action="environment.set").order_by("sequence")
    assert [entry.object_name for entry in kept] == ["alarm", "alarm"]


def test_the_absence_of_a_value_can_be_asked_for(world: World) -> None:
    alarm = declare(world)
    change(world, 'subject.carrier == "UA" && !env.alarm')
    assert may(world) == ("United",)
    say(world, alarm, True)
    assert may(world) == ()


def test_values_of_the_environment_can_be_compared_with_both_sides(world: World) -> None:
    preferred = declare(world, "preferred", type={"type": "enum", "values": ["AA", "DL", "UA"]})
    change(world, "subject.carrier == env.preferred && event.carrier == env.preferred")
    assert may(world) == ()
    say(world, preferred, "UA")
    (line,) = reach.take(world.flights).effective(type="Flight")
    assert (line.principal, line.condition) == ("United", "where event.carrier is UA")
    say(world, preferred, "AA")
    assert may(world) == ()


def test_two_values_of_the_environment_are_not_compared(world: World) -> None:
    declare(world, "one", type={"type": "string"})
    declare(world, "two", type={"type": "string"})
    with pytest.raises(Invalid, match="one side"):
        change(world, "env.one == env.two")


def test_the_clock_decides_to_the_second(world: World) -> None:
    change(world, 'subject.carrier == "UA" && env.time >= 930 && env.time < 1730')
    day = timezone.now() + timedelta(days=2)

    def at(hour: int, minute: int, second: int = 0) -> datetime:
        return day.replace(hour=hour, minute=minute, second=second, microsecond=0)

    assert may(world, at(9, 29, 59)) == ()
    assert may(world, at(9, 30)) == ("United",)
    assert may(world, at(17, 29, 59)) == ("United",)
    assert may(world, at(17, 30)) == ()
    assert selectors.next_boundary(world.flights, after=at(0, 0)) == at(9, 30)
    assert selectors.next_boundary(world.flights, after=at(9, 30)) == at(17, 30)
    change(world, 'subject.carrier == "UA" && env.time >= 930', enabled=False)
    assert selectors.next_boundary(world.flights, after=at(0, 0)) is None


def test_the_clock_can_be_tied_to_what_an_event_says(world: World) -> None:
    change(world, 'subject.carrier == "UA" && event.delay == env.hour', event_type="Departure")
    moment = datetime(2127, 7, 1, 12, 34, tzinfo=UTC)
    found = reach.take(world.flights, at=moment).effective(type="Departure")
    assert [line.condition for line in found] == ["where event.delay is 12"]
    later = moment.replace(hour=13, minute=0)
    assert selectors.next_boundary(world.flights, after=moment) == later


def test_the_zone_of_the_clock_is_a_variable(world: World) -> None:
    zone = declare(world, "timezone", type={"type": "string"})
    change(world, 'subject.carrier == "UA" && env.hour == 9')
    noon = datetime(2127, 7, 1, 12, 0, tzinfo=UTC)
    assert selectors.next_boundary(world.flights, after=noon) == noon + timedelta(hours=21)
    say(world, zone, "America/New_York")
    assert selectors.next_boundary(world.flights, after=noon) == noon + timedelta(hours=1)
    with pytest.raises(Invalid, match="known time zone") as failure:
        say(world, zone, "America/Nowhere")
    assert failure.value.problems[0].pointer == "/value"
    with pytest.raises(Invalid, match="is text"):
        variables.update_variable(
            actor=world.manager, variable=zone, data={"type": {"type": "int"}}
        )


def test_the_environment_is_there_for_roles_too(world: World) -> None:
    say(world, declare(world), True)
    found = ports.environment(world.flights, datetime(2026, 3, 2, 10, 5, tzinfo=UTC))
    assert (found["env.alarm"], found["env.hour"], found["env.weekday"]) == (True, 10, 1)


def test_variables_are_inherited_and_overridden(world: World) -> None:
    below = identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )
    alarm = declare(world)
    say(world, alarm, True)
    assert environment.values_at(below)["env.alarm"] is True
    revision = Domain.objects.get(pk=below.pk).revision
    say(world, alarm, False)
    assert Domain.objects.get(pk=below.pk).revision == revision + 1
    own = variables.declare_variable(
        actor=world.operator, domain=below, name="alarm", type={"type": "bool"}
    )
    assert "env.alarm" not in environment.values_at(below)
    variables.set_variable(actor=world.operator, variable=own, value=True)
    assert environment.values_at(below)["env.alarm"] is True
    assert environment.values_at(world.flights)["env.alarm"] is False
    assert [each.origin for each in environment.effective_environment(below)] == ["overridden"]
    variables.delete_variable(actor=world.operator, variable=own)
    assert [each.origin for each in environment.effective_environment(below)] == ["inherited"]


def test_what_may_be_declared_and_set(world: World) -> None:
    for fields, pointer in (
        ({"name": "hour"}, ""),
        ({"name": "9 lives"}, "/name"),
        ({"type": {"type": "date"}}, "/type"),
    ):
        with pytest.raises(Invalid) as failure:
            declare(world, **fields)
        assert failure.value.problems[0].pointer == pointer
    alarm = declare(world)
    with pytest.raises(Invalid):
        declare(world)
    with pytest.raises(Invalid) as failure:
        say(world, alarm, "yes")
    assert failure.value.problems[0].pointer == "/value"
    for actor in (world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            variables.set_variable(actor=actor, variable=alarm, value=True)
    with pytest.raises(Conflict):
        variables.set_variable(actor=world.manager, variable=alarm, value=True, expected_version=7)


def test_the_database_keeps_the_names_of_the_clock_free(world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        EnvironmentVariable.objects.create(domain=world.flights, name="hour", type={"type": "int"})


def test_a_variable_that_a_policy_names_stays(world: World) -> None:
    alarm = declare(world)
    change(world, "env.alarm")
    with pytest.raises(InUse, match="own flights"):
        variables.delete_variable(actor=world.manager, variable=alarm)
    with pytest.raises(InUse, match="own flights"):
        variables.update_variable(
            actor=world.manager, variable=alarm, data={"type": {"type": "string"}}
        )
    change(world, "true")
    say(world, alarm, True)
    changed = variables.update_variable(
        actor=world.manager, variable=alarm, data={"type": {"type": "string"}, "title": "A"}
    )
    assert (changed.value, changed.title, changed.version) == (None, "A", 3)


@pytest.mark.parametrize(
    ("standing", "code"),
    [("manager", 200), ("operator", 200), ("auditor", 403), ("stranger", 404), ("anonymous", 401)],
)
def test_who_may_set_a_value_by_name(
    standing: str, code: int, world: World, browsers: dict[str, Client]
) -> None:
    declare(world)
    url = "/api/v1/environment/flights/alarm"
    answer = browsers[standing].put(url, {"value": True}, JSON)
    assert answer.status_code == code
    assert EnvironmentVariable.objects.get().value == (True if code == 200 else None)
    if code == 200:
        assert answer.json()["value"] is True
        assert answer["ETag"] == '"2"'
        refused = browsers[standing].put(url, {"value": "on"}, JSON)
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["pointer"] == "/value"
        assert browsers[standing].put(f"{url}s", {"value": True}, JSON).status_code == 404
        assert browsers[standing].put(url, {}, JSON).status_code == 400
