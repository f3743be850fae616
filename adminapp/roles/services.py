"""Changes of roles and their rules; appointments, sessions and settings come from modules of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row
from adminapp.roles import checks, mapping, reading
from adminapp.roles.appointing import (
    appoint,
    create_appointment_rule,
    delete_appointment_rule,
    end_appointment,
    lapse,
    update_appointment_rule,
)
from adminapp.roles.models import Role, RoleRule
from adminapp.roles.sessions import change_session, close_session, open_session
from adminapp.roles.settings import set_role_settings

__all__ = [
    "appoint",
    "change_session",
    "close_session",
    "create_appointment_rule",
    "create_role",
    "delete_appointment_rule",
    "delete_role",
    "end_appointment",
    "lapse",
    "open_session",
    "retire_role",
    "set_role_settings",
    "update_appointment_rule",
    "update_role",
]

ROLE_FIELDS = frozenset({"name", "title", "parameters"})


@audit.change
def create_role(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    title: str = "",
    parameters: Iterable[Any] = (),
    rules: Iterable[Any] = (),
) -> Role:
    """A new role.

    Args:
        parameters: in order, each a name or `{"name": ..., "type": {...}}`.
        rules: alternatives, see `reading.read_rule`; a role without rules is never active.
    """
    permissions.require_change(actor, domain, "role", name)
    row = versions.create(
        Role(domain=domain, name=name, title=title, parameters=_parameters(parameters))
    )
    _set_rules(row, rules)
    _verify(row)
    record_row(actor, domain, "role.created", row, after=mapping.role(row))
    return row


@audit.change
def update_role(
    *,
    actor: User | None,
    role: Role,
    data: Mapping[str, Any],
    rules: Iterable[Any] | None = None,
    expected_version: int | None = None,
) -> Role:
    """Change title, parameters and rules; `rules`, when given, are all of them from now on."""
    permissions.require_change(actor, role.domain, "role", role.name)
    row = versions.locked(role, expected_version)
    before = mapping.role(row)
    versions.assign(row, data, ROLE_FIELDS)
    if "parameters" in data:
        row.parameters = _parameters(row.parameters)
    if row.name != before["name"]:
        permissions.require_change(actor, row.domain, "role", row.name)
    versions.save(row)
    if rules is not None:
        _set_rules(row, rules)
    _verify(row)
    record_row(actor, row.domain, "role.updated", row, before=before, after=mapping.role(row))
    return row


@audit.change
def delete_role(*, actor: User | None, role: Role, expected_version: int | None = None) -> None:
    permissions.require_change(actor, role.domain, "role", role.name)
    row = versions.locked(role, expected_version)
    before, pk, domain = mapping.role(row), row.pk, row.domain
    row.delete()
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
    row.pk = pk
    record_row(actor, domain, "role.deleted", row, before=before)


@audit.change
def retire_role(*, actor: User | None, role: Role, expected_version: int | None = None) -> Role:
    """Leave a role no rule by which it could be active; waits for no approval.

    Whoever calls it makes sure that nobody gains anything by it. The role stays, so that what
    names it stays readable; new rules bring it back.
    """
    permissions.require_change(actor, role.domain, "role", role.name)
    row = versions.locked(role, expected_version)
    before = mapping.role(row)
    if not row.rules.exists():
        raise InUse("nobody can have this role: it has no rules")
    versions.save(row)
    _set_rules(row, ())
    _verify(row)
    after = mapping.role(row)
    record_row(actor, row.domain, "role.updated", row, before=before, after=after, revokes=True)
    return row


def _parameters(listed: Iterable[Any]) -> list[Any]:
    return [each.to_json() for each in reading.read_parameters(listed)]


def _set_rules(role: Role, rules: Iterable[Any]) -> None:
    RoleRule.objects.filter(role=role).delete()
    for index, document in enumerate(rules):
        try:
            fields = reading.read_rule(document, role.name, len(role.parameters))
            versions.create(RoleRule(role=role, **fields))
        except Invalid as error:
            raise error.below(f"/rules/{index}") from error
    role.__dict__.get("_prefetched_objects_cache", {}).pop("rules", None)


def _verify(role: Role) -> None:
    """Raises Invalid when the domain no longer fits together, as seen from the role."""
    try:
        ports.verify_model(role.domain)
    except Invalid as error:
        place = f"/roles/{role.name}"
        raise Invalid(checks.seen_from(place, each) for each in error.problems) from error
