"""Changes of roles, their rules and appointments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.services import record_row
from adminapp.roles import checks, mapping, reading
from adminapp.roles.models import Appointment, Role, RoleRule

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
        raise Invalid(checks.seen_from(role.name, each) for each in error.problems) from error


@audit.change
def appoint(
    *,
    actor: User | None,
    principal: Principal,
    name: str,
    parameters: Iterable[Any] = (),
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Appointment:
    """Give a principal a standing, from now or `starts` on, for good or until `ends`.

    Args:
        parameters: values of what it is about: `["7", "West"]` of `badge(7, West)`.
    """
    domain = principal.domain
    permissions.require_change(actor, domain, "appointment", name)
    begin = starts or timezone.now()
    if ends is not None and ends <= begin:
        raise Invalid.at("/ends", "the end must come after the beginning")
    row = versions.create(
        Appointment(
            principal=principal,
            name=name,
            parameters=list(reading.read_terms(parameters, name)),
            starts=begin,
            ends=ends,
            issuer=actor,
        )
    )
    after = mapping.appointment(row)
    record_row(
        actor, domain, "appointment.given", row, key=mapping.appointment_key(after), after=after
    )
    return row


@audit.change
def end_appointment(
    *, actor: User | None, appointment: Appointment, expected_version: int | None = None
) -> Appointment:
    """End an appointment now; the row stays as a record."""
    domain = appointment.principal.domain
    permissions.require_change(actor, domain, "appointment", appointment.name)
    row = versions.locked(appointment, expected_version)
    if row.ends is not None and row.ends <= timezone.now():
        raise InUse("this appointment has ended already")
    before = mapping.appointment(row)
    row.ends = timezone.now()
    row.starts = min(row.starts, row.ends)
    versions.save(row)
    after = mapping.appointment(row)
    record_row(
        actor,
        domain,
        "appointment.ended",
        row,
        key=mapping.appointment_key(before),
        before=before,
        after=after,
        revokes=True,
    )
    return row
