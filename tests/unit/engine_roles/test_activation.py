"""Roles without parameters, all at once (`active_roles`)."""

from __future__ import annotations

import pytest

from policyengine.errors import InputError
from policyengine.roles import (
    RolePolicy,
    RoleRule,
    Session,
    active_roles,
    constraint_met,
    read_rule,
)

RULES = (
    RoleRule("employee", (), ("hired",)),
    RoleRule("officer", ("employee",), ("sworn",), "env.hour >= 9 && env.hour < 17"),
    RoleRule("officer", ("employee",), ("on-call",)),
    RoleRule("night", (), (), "!(env.day)"),
)


@pytest.mark.parametrize("appointments", [(), ("hired",), ("hired", "sworn"), ("hired", "on-call")])
@pytest.mark.parametrize("environment", [{}, {"hour": 10}, {"env.day": False}])
def test_it_is_what_a_session_ends_with(
    appointments: tuple[str, ...], environment: dict[str, int | bool]
) -> None:
    policy = RolePolicy(
        tuple(
            read_rule(
                rule.role,
                prerequisites=rule.prerequisites,
                appointments=rule.appointments,
                constraints=[rule.constraints] if rule.constraints else [],
            )
            for rule in RULES
        )
    )
    session = Session(policy)
    session.set(environment)
    for name in appointments:
        session.appoint(name)
    for role in ("employee", "officer", "night"):
        session.activate(role)
    assert set(session.active) == active_roles(RULES, appointments, environment)


def test_a_blank_constraint_is_met() -> None:
    assert constraint_met(RoleRule("a", constraints=" "), {})
    assert not constraint_met(RoleRule("a", constraints="env.site == 'north'"), {})
    assert constraint_met(RoleRule("a", constraints="env.site == 'north'"), {"env.site": "north"})


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="cycle"):
        active_roles([RoleRule("a", ("a",))], (), {})
    with pytest.raises(InputError, match="constraint of role `a`"):
        active_roles([RoleRule("a", constraints="env.")], (), {})
