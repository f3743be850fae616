"""Roles as the engine's values, and as what the audit keeps.

A principal has many roles at once, while an attribute of the policy language has one value. So
each role becomes an attribute of its own that is there, and true, while the role is active:
`subject.role == "driver"` is read as `subject.role.driver`. Every test on roles can be said that
way, negation included, and the engine needs no second kind of attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.core.moments import moment
from adminapp.roles.models import Appointment, Role
from adminapp.roles.models import RoleRule as RoleRuleRow
from policyengine.roles import RoleRule

ROLE = "subject.role"


def role_attribute(name: str) -> str:
    """The attribute that says whether a role is active."""
    return f"{ROLE}.{name}"


def rule(row: RoleRuleRow) -> RoleRule:
    return RoleRule(
        role=row.role.name,
        prerequisites=tuple(row.prerequisites),
        appointments=tuple(row.appointments),
        constraints=row.constraints,
    )


def rules(rows: Iterable[RoleRuleRow]) -> tuple[RoleRule, ...]:
    return tuple(rule(row) for row in rows)


def role(row: Role) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "rules": [
            {
                "prerequisites": each.prerequisites,
                "appointments": each.appointments,
                "constraints": each.constraints,
            }
            for each in row.rules.all()
        ],
    }


def appointment_key(document: Mapping[str, Any]) -> str:
    """The natural key of an appointment's document."""
    return f"{document.get('principal', '')}/{document.get('name', '')}"


def appointment(row: Appointment) -> dict[str, Any]:
    return {
        "principal": row.principal.name,
        "name": row.name,
        "starts": moment(row.starts),
        "ends": moment(row.ends),
    }
