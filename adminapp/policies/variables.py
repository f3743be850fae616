"""Changes of the environment: variables declared, and what they are set to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import available_timezones

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, User
from adminapp.identity.recording import record_row
from adminapp.policies import mapping
from adminapp.policies.environment import ZONE
from adminapp.policies.models import EnvironmentVariable
from policyengine.attributes import AttributeType, unknown
from policyengine.errors import InputError

FIELDS = frozenset({"name", "title", "type"})


def declared(obj: Any) -> AttributeType:
    """The type of a variable.

    Raises:
        Invalid: it is none.
    """
    try:
        return AttributeType.from_json(obj)
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, "/type")]) from error


@audit.change
def declare_variable(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    type: Mapping[str, Any],  # noqa: A002 - the field's own name
    title: str = "",
) -> EnvironmentVariable:
    """A new variable; until it is set, tests of it are not met."""
    permissions.require_manager(actor, domain)
    row = EnvironmentVariable(domain=domain, name=name, title=title, type=type)
    _check(row)
    versions.create(row)
    ports.verify_model(domain)
    record_row(actor, domain, "environment-variable.created", row, after=mapping.variable(row))
    return row


@audit.change
def update_variable(
    *,
    actor: User | None,
    variable: EnvironmentVariable,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> EnvironmentVariable:
    """Change what a variable is; a value that no longer fits is taken back."""
    permissions.require_manager(actor, variable.domain)
    row = versions.locked(variable, expected_version)
    before = mapping.variable(row)
    versions.assign(row, data, FIELDS)
    kind = _check(row)
    if row.value is not None and _problem(kind, row.name, row.value) is not None:
        row.value, row.set_at = None, timezone.now()
    versions.save(row)
    _verify(row.domain)
    after = mapping.variable(row)
    record_row(actor, row.domain, "environment-variable.updated", row, before=before, after=after)
    return row


@audit.change
def delete_variable(
    *, actor: User | None, variable: EnvironmentVariable, expected_version: int | None = None
) -> None:
    permissions.require_manager(actor, variable.domain)
    row = versions.locked(variable, expected_version)
    before, pk = mapping.variable(row), row.pk
    row.delete()
    _verify(row.domain)
    row.pk = pk
    record_row(actor, row.domain, "environment-variable.deleted", row, before=before)


@audit.change
def set_variable(
    *,
    actor: User | None,
    variable: EnvironmentVariable,
    value: Any,
    expected_version: int | None = None,
) -> EnvironmentVariable:
    """Say what is the case now; None takes it back. What is in force changes with it, at once.

    This is a fact and no change of the model, so it waits for nobody's approval.
    """
    permissions.require_manager(actor, variable.domain)
    row = versions.locked(variable, expected_version)
    if value is not None:
        problem = _problem(declared(row.type), row.name, value)
        if problem is not None:
            raise Invalid([problem])
    before = {"name": row.name, "value": row.value}
    if row.value == value and type(row.value) is type(value):
        return row
    row.value, row.set_at = value, timezone.now()
    versions.save(row)
    record_row(
        actor,
        row.domain,
        "environment.set",
        row,
        before=before,
        after={"name": row.name, "value": value},
        revokes=True,  # like a revocation it waits for nobody
    )
    return row


def _check(row: EnvironmentVariable) -> AttributeType:
    kind = declared(row.type)
    row.type = kind.to_json()
    if row.name == ZONE and kind.kind not in ("string", "enum"):
        raise Invalid.at("/type", "the name of a time zone is text")
    return kind


def _problem(kind: AttributeType, name: str, value: Any) -> Problem | None:
    try:
        kind.check(value, name)
    except InputError as error:
        return Problem.from_input_error(error, "/value")
    if name == ZONE and value not in available_timezones():
        error = unknown("time zone", str(value), available_timezones())
        return Problem.from_input_error(error, "/value")
    return None


def _verify(domain: Domain) -> None:
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
