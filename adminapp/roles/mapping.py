"""Roles as the engine's values, and as what the audit keeps.

A principal has many roles at once, while an attribute of the policy language has one value. So
each role becomes an attribute of its own that is there, and true, while the role is active:
`subject.role == "driver"` is read as `subject.role.driver`. Every test on roles can be said that
way, negation included, and the engine needs no second kind of attribute. What a role's parameters
are is named below it: `subject.role.officer.station`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.core.errors import Invalid
from adminapp.core.moments import moment
from adminapp.roles import reading
from adminapp.roles.models import (
    Appointment,
    AppointmentRule,
    Role,
    RoleSession,
    RoleSettings,
    SessionRole,
)
from adminapp.roles.models import RoleRule as RoleRuleRow
from adminapp.roles.reading import Parameter
from policyengine.attributes import AttributeType
from policyengine.roles import Rule

ROLE = "subject.role"


def role_attribute(name: str) -> str:
    """The attribute that says whether a role is active."""
    return f"{ROLE}.{name}"


def parameter_attribute(role: str, parameter: str) -> str:
    """The attribute that says what a parameter of an active role is."""
    return f"{ROLE}.{role}.{parameter}"


def parameters(row: Role) -> tuple[Parameter, ...]:
    return reading.read_parameters(row.parameters)


def parameter_types(rows: Iterable[Role]) -> dict[str, AttributeType]:
    """What policies may say of the parameters of roles, by full name."""
    return {
        parameter_attribute(row.name, each.name): each.type
        for row in rows
        if row.parameters
        for each in parameters(row)
    }


def rule(row: RoleRuleRow) -> Rule:
    return reading.rule(
        row.role.name,
        tuple(row.arguments),
        tuple(row.prerequisites),
        tuple(row.appointments),
        tuple(row.constraints),
        tuple(row.membership),
    )


def rules(rows: Iterable[RoleRuleRow]) -> tuple[Rule, ...]:
    return tuple(rule(row) for row in rows)


def rule_document(row: RoleRuleRow) -> dict[str, Any]:
    return {
        "role": reading.head(row.role.name, row.arguments),
        "prerequisites": row.prerequisites,
        "appointments": row.appointments,
        "constraints": row.constraints,
        "membership": row.membership,
    }


def normal_role(document: dict[str, Any]) -> dict[str, Any]:
    """A role's document in the one form that rows have, however its texts were written.

    Raises:
        Invalid: a parameter or a rule cannot be read.
    """
    listed = reading.read_parameters(document.get("parameters", []))
    found = []
    for index, each in enumerate(document.get("rules", [])):
        try:
            fields = reading.read_rule(each, document["name"], len(listed))
        except Invalid as error:
            raise error.below(f"/rules/{index}") from error
        head = reading.head(document["name"], fields.pop("arguments"))
        found.append({"role": head, **fields})
    return {**document, "parameters": [each.to_json() for each in listed], "rules": found}


def role(row: Role) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "parameters": row.parameters,
        "rules": [rule_document(each) for each in row.rules.all()],
    }


def appointment_rule(row: AppointmentRule) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "parameters": row.parameters,
        "by": row.by,
        "longest": row.longest,
        "lapses_with_issuer": row.lapses_with_issuer,
    }


def settings(row: RoleSettings) -> dict[str, Any]:
    return {"by_session": row.by_session}


def appointment_key(document: Mapping[str, Any]) -> str:
    """The natural key of an appointment's document: `United/badge(7, West)`, `United/badge#2`."""
    name = reading.written(str(document.get("name", "")), document.get("parameters", ()))
    number = document.get("number", 1)
    return f"{document.get('principal', '')}/{name}{'' if number == 1 else f'#{number}'}"


def atom_text(row: Appointment) -> str:
    """What an appointment says, in the engine's spelling: `badge(7, West)`."""
    return reading.written(row.name, row.parameters)


def appointment(row: Appointment) -> dict[str, Any]:
    return {
        "principal": row.principal.name,
        "name": row.name,
        "parameters": row.parameters,
        "number": row.number,
        "starts": moment(row.starts),
        "ends": moment(row.ends),
        "issued_by": row.issued_by.name if row.issued_by else None,
        "reason": row.reason,
    }


def session(row: RoleSession) -> dict[str, Any]:
    return {
        "principal": row.principal.name,
        "opened": moment(row.opened),
        "closed": moment(row.closed),
        "reason": row.reason,
        "roles": [session_role(each) for each in row.roles.all()],
    }


def session_role(row: SessionRole) -> dict[str, Any]:
    return {
        "role": row.atom,
        "since": moment(row.since),
        "ended": moment(row.ended),
        "chain": row.chain,
    }
