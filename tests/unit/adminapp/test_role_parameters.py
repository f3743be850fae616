"""Roles with parameters: what principals have, what policies see of it, what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.core.errors import InUse, Invalid
from adminapp.identity import services as identity
from adminapp.identity.models import Principal
from adminapp.policies import reach
from adminapp.policies import selectors as policies
from adminapp.policies.services import create_policy, update_policy
from adminapp.roles import activations, selectors, services
from adminapp.roles.findings import findings
from tests.support.control_plane import World

BADGE = "badge(x, s)"


def role(world: World, name: str, *rules: Any, parameters: Any = ()) -> Any:
    return services.create_role(
        actor=world.manager, domain=world.flights, name=name, parameters=parameters, rules=rules
    )


def appoint(world: World, principal: Principal, name: str, *values: Any, **more: Any) -> Any:
    return services.appoint(
        actor=world.manager, principal=principal, name=name, parameters=values, **more
    )


@pytest.fixture
def officers(world: World) -> World:
    role(
        world,
        "officer",
        {"role": "officer(x,s)", "appointments": [BADGE]},
        parameters=["number", "station"],
    )
    role(world, "chief", {"prerequisites": ["officer(x, West)"], "constraints": "x != 13"})
    return world


def test_variables_are_shared(officers: World) -> None:
    world = officers
    appoint(world, world.united, "badge", 7, "West")
    appoint(world, world.united, "badge", 8, "East")
    appoint(world, world.airport, "badge", 13, "West")
    assert selectors.active_roles(world.united) == {"airline", "officer", "chief"}
    assert selectors.active_roles(world.airport) == {"officer"}  # 13 is no chief
    variants = selectors.subject_values(world.united)
    assert [dict(each) for each in variants] == [
        {
            "subject.carrier": "UA",
            "subject.role.airline": True,
            "subject.role.chief": True,
            "subject.role.officer": True,
            "subject.role.officer.number": number,
            "subject.role.officer.station": station,
        }
        for number, station in (("7", "West"), ("8", "East"))
    ]


def test_a_role_with_other_parameters_is_named_where_one_is_missing(officers: World) -> None:
    world = officers
    for number in range(5):
        appoint(world, world.united, "badge", number, "East")
    explained = selectors.explain_role(world.united, "chief", timezone.now())
    assert not explained.active
    needed = next(each for each in explained.steps if each.kind == "role")
    assert not needed.holds
    assert needed.role is not None
    assert needed.role.reason == (
        "`officer(x, West)` is not active; `officer(0, East)`, `officer(1, East)`, "
        "`officer(2, East)` and 2 more are, which do not fit"
    )


def test_documents_have_one_form(officers: World) -> None:
    row = officers.flights.roles.get(name="officer")
    rule = row.rules.get()
    assert (rule.arguments, rule.appointments) == (["x", "s"], ["badge(x, s)"])
    assert rule.membership == ["badge(x, s)"]  # by default everything must keep holding
    chief = officers.flights.roles.get(name="chief").rules.get()
    assert chief.membership == ["officer(x, West)", "x != 13"]


@pytest.mark.parametrize(
    ("parameters", "rule", "pointer", "position"),
    [
        (["n"], {"role": "new(x)"}, "/rules/0/role", None),  # whoever activates it chooses x
        (["n"], {"appointments": ["a(x)"]}, "/rules/0/role", None),  # and which of them is n?
        (["n"], {"role": "other(x)", "appointments": ["a(x)"]}, "/rules/0/role", None),
        ([], {"appointments": ["a(x"]}, "/rules/0/appointments/0", 3),
        ([], {"prerequisites": ["!airline"]}, "/rules/0/prerequisites/0", 0),
        ([], {"prerequisites": ["airline", "airlime"]}, "/rules/0/prerequisites/1", None),
        ([], {"prerequisites": ["airline(x)"]}, "/rules/0/prerequisites/0", None),
        ([], {"constraints": ["env.hour > 9", "x == 3"]}, "/rules/0/constraints/1", 0),
        ([], {"appointments": ["a"], "membership": ["b"]}, "/rules/0/membership/0", None),
        (["n", "n"], {}, "/parameters/1", None),
        ([{"name": "n", "type": {"type": "what"}}], {}, "/parameters/0/type", None),
        (["9"], {}, "/parameters/0", None),
    ],
)
def test_refused(
    parameters: list[Any], rule: dict[str, Any], pointer: str, position: int | None, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        role(world, "new", rule, parameters=parameters)
    problem = failure.value.problems[0]
    assert (problem.pointer, problem.position) == (pointer, position)


def test_a_role_that_others_need_keeps_its_parameters(officers: World) -> None:
    world = officers
    officer = world.flights.roles.get(name="officer")
    with pytest.raises(Invalid, match="role `chief`"):
        services.update_role(
            actor=world.manager,
            role=officer,
            data={"parameters": ["number"]},
            rules=[{"role": "officer(x)", "appointments": [BADGE]}],
        )
    with pytest.raises(InUse):
        services.delete_role(actor=world.manager, role=officer)


def test_types_of_parameters(world: World) -> None:
    number = {"name": "number", "type": {"type": "int", "min": 1, "max": 9}}
    role(world, "unit", {"role": "unit(x)", "appointments": ["in(x)"]}, parameters=[number])
    appoint(world, world.united, "in", 7)
    appoint(world, world.airport, "in", 70)  # no such unit: it activates nothing
    assert dict(selectors.subject_values(world.united)[0])["subject.role.unit.number"] == 7
    assert selectors.active_roles(world.airport) == frozenset()
    schema = selectors.parameter_schema(world.flights)
    assert schema["subject.role.unit.number"].to_json() == number["type"]


def test_policies_never_mix_two_activations(officers: World) -> None:
    world = officers
    update_policy(
        actor=world.manager,
        policy=world.policy,
        data={
            "expression": 'subject.role.officer.number == "7"'
            " && event.origin == subject.role.officer.station"
        },
    )
    appoint(world, world.united, "badge", 7, "West")
    appoint(world, world.united, "badge", 8, "East")
    conditions = {line.condition for line in reach.take(world.flights).effective()}
    assert conditions == {"where event.origin is West"}
    with pytest.raises(Invalid) as failure:
        create_policy(
            actor=world.manager,
            domain=world.flights,
            name="wrong",
            action="subscribe",
            event_type=world.flight,
            expression='subject.role.officer.statoin == "West"',
        )
    assert failure.value.problems[0].suggestion == "subject.role.officer.station"


def test_too_many_variants_have_no_rights(officers: World, monkeypatch: Any) -> None:
    world = officers
    monkeypatch.setattr(activations, "MAX_VARIANTS", 2)
    for number in range(3):
        appoint(world, world.united, "badge", number, "West")
    found = selectors.activations(world.flights)
    assert found.overfull == {world.united.pk}
    assert selectors.subject_values(world.united) == ()
    assert list(reach.take(world.flights).effective()) == []


def test_the_clock_and_variables(world: World) -> None:
    role(world, "night", {"constraints": "env.hour >= 22 || env.hour < 6"})
    # Of tomorrow: all that the world was made with has begun by then.
    tomorrow = timezone.now() + timedelta(days=1)
    noon = tomorrow.replace(hour=12, minute=30, second=0, microsecond=0)
    assert "night" not in selectors.active_roles(world.united, at=noon)
    assert "night" in selectors.active_roles(world.united, at=noon.replace(hour=23))
    # the answer changes at ten in the evening, and at no hour before
    boundary = policies.next_boundary(world.flights, after=noon)
    assert boundary == noon.replace(hour=22, minute=0)


def test_findings(world: World) -> None:
    role(world, "idle")
    role(world, "lost", {"prerequisites": ["idle"], "constraints": ["env.alarn"]})
    found = {(each.role, each.rule, each.kind) for each in findings(world.flights)}
    assert ("idle", None, "unruled") in found
    assert ("lost", 0, "unreachable") in found
    assert ("lost", 0, "unset") in found


def test_children_inherit_and_override(world: World) -> None:
    below = identity.create_domain(
        actor=world.operator, name="regional", title="Regional", parent=world.flights
    )
    ann = identity.create_principal(actor=world.operator, domain=below, name="Ann", kind="person")
    services.appoint(actor=world.operator, principal=ann, name="licensed")
    assert selectors.active_roles(ann) == {"airline"}
    services.create_role(
        actor=world.operator, domain=below, name="airline", rules=[{"appointments": ["certified"]}]
    )
    assert selectors.active_roles(ann) == frozenset()
    assert selectors.active_roles(world.united) == {"airline"}
    origins = {each.row.name: each.origin for each in selectors.effective_roles(below)}
    assert origins == {"airline": "overridden"}


def test_a_constant_number_of_queries(officers: World) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            selectors.activations(officers.flights)
        return len(captured)

    few = asked()
    for number in range(10):
        person = Principal.objects.create(domain=officers.flights, name=f"P{number}", kind="person")
        appoint(officers, person, "badge", number, "West", ends=timezone.now() + timedelta(days=1))
    assert asked() == few
