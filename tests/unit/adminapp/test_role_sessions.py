"""Live sessions: what is activated, what falls with what, and whether only sessions count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import services as identity
from adminapp.policies import reach, variables
from adminapp.roles import selectors, services
from adminapp.roles.lapsing import settle_domain
from adminapp.roles.models import Appointment, RoleSession
from tests.support.control_plane import World

CHAIN = [
    "`employee(7)` ended because appointment `hired(7)` ended at",
    "`officer(7)` ended because role `employee(7)` ended",
]


@pytest.fixture
def police(world: World) -> World:
    who = {"actor": world.manager, "domain": world.flights}
    variables.declare_variable(**who, name="duty", type={"type": "bool"})
    services.create_role(
        **who,
        name="employee",
        parameters=["number"],
        rules=[{"role": "employee(x)", "appointments": ["hired(x)"]}],
    )
    services.create_role(
        **who,
        name="officer",
        parameters=["number"],
        rules=[
            {
                "role": "officer(x)",
                "prerequisites": ["employee(x)"],
                "appointments": ["sworn(x)"],
                "constraints": ["env.duty"],
                "membership": ["employee(x)", "env.duty"],
            }
        ],
    )
    set_duty(world, True)
    for name in ("hired", "sworn"):
        appoint(world, name, 7)
    return world


def set_duty(world: World, value: bool) -> None:
    variables.set_variable(
        actor=world.manager, variable=world.flights.environment.get(name="duty"), value=value
    )


def appoint(world: World, name: str, *values: Any) -> Appointment:
    return services.appoint(
        actor=world.manager, principal=world.united, name=name, parameters=values
    )


def end(world: World, name: str) -> None:
    row = Appointment.objects.get(principal=world.united, name=name, closed__isnull=True)
    services.end_appointment(actor=world.manager, appointment=row)


def opened(world: World, *roles: str) -> RoleSession:
    return services.open_session(
        actor=world.manager, principal=world.united, roles=list(roles) or None
    )


def active(session: RoleSession) -> list[str]:
    return [each.atom for each in session.roles.filter(ended__isnull=True)]


def test_all_or_some_roles(police: World) -> None:
    assert active(opened(police)) == ["airline", "employee(7)", "officer(7)"]
    assert active(opened(police, "employee(7)", "officer(7)")) == ["employee(7)", "officer(7)"]
    with pytest.raises(Invalid, match="role `employee\\(7\\)` is not active") as failure:
        opened(police, "officer(7)")
    assert failure.value.problems[0].pointer == "/activate/0"
    with pytest.raises(Invalid) as failure:
        opened(police, "employee(7)", "officer(")
    assert failure.value.problems[0].position == 8
    assert RoleSession.objects.count() == 2


def test_the_cascade_is_in_the_same_transaction(police: World) -> None:
    session = opened(police)
    before = Entry.objects.count()
    end(police, "hired")
    assert active(session) == ["airline"]
    chains = {each.atom: each.chain for each in session.roles.exclude(ended=None)}
    assert len(chains["officer(7)"]) == 2
    for line, begin in zip(chains["officer(7)"], CHAIN, strict=True):
        assert line.startswith(begin)
    actions = [each.action for each in Entry.objects.order_by("sequence")[before:]]
    assert actions == ["appointment.ended", "session.fell"]


def test_what_is_no_membership_condition_is_asked_once(police: World) -> None:
    session = opened(police)
    end(police, "sworn")
    assert "officer(7)" in active(session)
    set_duty(police, False)
    assert active(session) == ["airline", "employee(7)"]
    set_duty(police, True)  # nothing comes back by itself
    assert active(session) == ["airline", "employee(7)"]


def test_a_rule_or_role_that_goes_takes_its_roles_along(police: World) -> None:
    session = opened(police)
    officer = police.flights.roles.get(name="officer")
    services.update_role(actor=police.manager, role=officer, data={"title": "Officers"})
    assert "officer(7)" in active(session)
    rules = [{"role": "officer(x)", "appointments": ["sworn(x)"]}]
    services.update_role(actor=police.manager, role=officer, data={}, rules=rules)
    fallen = session.roles.get(atom="officer(7)")
    assert fallen.chain == [
        "`officer(7)` ended because the rule that granted role `officer(7)` is there no more"
    ]
    services.change_session(actor=police.manager, session=session, activate=["officer(7)"])
    services.delete_role(actor=police.manager, role=police.flights.roles.get(name="officer"))
    assert active(session) == ["airline", "employee(7)"]
    assert session.roles.last().chain == ["`officer(7)` ended because role `officer` was deleted"]


def test_roles_are_deactivated_with_what_rests_on_them(police: World) -> None:
    session = opened(police)
    services.change_session(
        actor=police.manager, session=session, deactivate=["employee(7)"], activate=["employee(7)"]
    )
    assert active(session) == ["airline", "employee(7)"]
    with pytest.raises(Invalid, match="not active"):
        services.change_session(actor=police.manager, session=session, deactivate=["officer(7)"])


def test_it_closes_once_and_with_its_principal(police: World) -> None:
    first, second = opened(police), opened(police)
    services.close_session(actor=police.manager, session=first)
    with pytest.raises(InUse):
        services.close_session(actor=police.manager, session=first)
    identity.mark_revoked(actor=police.manager, principal=police.united)
    second.refresh_from_db()
    assert second.closed is not None
    assert second.reason == "`United` was revoked"
    assert active(second) == []
    police.united.refresh_from_db()
    with pytest.raises(Invalid, match="was revoked"):
        opened(police)


def test_only_sessions_count_where_the_domain_says_so(police: World) -> None:
    world = police
    assert "officer" in selectors.active_roles(world.united)
    services.set_role_settings(actor=world.manager, domain=world.flights, by_session=True)
    assert selectors.active_roles(world.united) == frozenset()
    assert not list(reach.take(world.flights).effective())
    session = opened(world, "airline", "employee(7)")
    opened(world, "employee(7)", "officer(7)")
    variants = [dict(each) for each in selectors.subject_values(world.united)]
    roles = [{name for name, value in each.items() if value is True} for each in variants]
    assert roles == [  # sessions are never put together
        {"subject.role.airline", "subject.role.employee"},
        {"subject.role.employee", "subject.role.officer"},
    ]
    assert list(reach.take(world.flights).effective())
    revision = type(world.flights).objects.get(pk=world.flights.pk).revision
    services.close_session(actor=world.manager, session=session)
    assert type(world.flights).objects.get(pk=world.flights.pk).revision == revision + 1
    assert not list(reach.take(world.flights).effective())


def test_a_session_outlives_no_lapse_recorded_or_not(police: World) -> None:
    world = police
    services.set_role_settings(actor=world.manager, domain=world.flights, by_session=True)
    opened(world)
    Appointment.objects.filter(name="hired").update(ends=timezone.now() + timedelta(hours=1))
    later = timezone.now() + timedelta(hours=2)
    assert selectors.active_roles(world.united) == {"airline", "employee", "officer"}
    assert selectors.active_roles(world.united, at=later) == {"airline"}
    assert settle_domain(world.flights) == 0


def test_explanations(police: World) -> None:
    world = police
    found = selectors.explain_role(world.united, "officer")
    assert (found.role, found.active, found.rule) == ("officer(7)", True, 0)
    below = found.steps[0].role
    assert below is not None
    assert below.steps[0].issuer == "mona"
    assert found.chain() == (below.reason, found.reason)
    assert [each.membership for each in found.steps] == [True, False, True]
    end(world, "hired")
    lacking = selectors.explain_role(world.united, "officer")
    assert not lacking.active
    (step,) = lacking.steps
    assert (step.kind, step.why) == ("role", "role `employee(7)` is not active")
    assert step.role is not None
    assert step.role.steps[0].why == "appointment `hired(7)` is not held"
    nobody = selectors.explain_role(world.airport, "officer(8)")
    assert [each.why for each in nobody.steps] == [
        "role `employee(8)` is not active",
        "appointment `sworn(8)` is not held",
    ]
    assert [each.role for each in selectors.explain_roles(world.united)] == ["airline"]
    unknown = selectors.explain_role(world.united, "pilot")
    assert "no rule is for `pilot`" in unknown.reason
