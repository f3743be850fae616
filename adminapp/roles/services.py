"""Changes of roles, their rules and appointments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import names, versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.services import record_row
from adminapp.roles import mapping
from adminapp.roles.models import Appointment, Role, RoleRule

RULE_FIELDS = frozenset({"prerequisites", "appointments", "constraints"})


@audit.change
def create_role(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    title: str = "",
    rules: Iterable[Mapping[str, Any]] = (),
) -> Role:
    """A new role.

    Args:
        rules: alternatives, each `{"prerequisites": [role], "appointments": [name],
            "constraints": text}`; a role without rules is never active.
    """
    permissions.require_manager(actor, domain)
    row = versions.create(Role(domain=domain, name=name, title=title))
    _set_rules(row, rules)
    ports.verify_model(domain)
    record_row(actor, domain, "role.created", row, after=mapping.role(row))
    return row


@audit.change
def update_role(
    *,
    actor: User | None,
    role: Role,
    data: Mapping[str, Any],
    rules: Iterable[Mapping[str, Any]] | None = None,
    expected_version: int | None = None,
) -> Role:
    """Change title and rules; `rules`, when given, are all of them from now on."""
    permissions.require_manager(actor, role.domain)
    row = versions.locked(role, expected_version)
    before = mapping.role(row)
    versions.assign(row, data, frozenset({"title", "name"}))
    versions.save(row)
    if rules is not None:
        _set_rules(row, rules)
    ports.verify_model(row.domain)
    record_row(actor, row.domain, "role.updated", row, before=before, after=mapping.role(row))
    return row


@audit.change
def delete_role(*, actor: User | None, role: Role, expected_version: int | None = None) -> None:
    permissions.require_manager(actor, role.domain)
    row = versions.locked(role, expected_version)
    before, pk, domain = mapping.role(row), row.pk, row.domain
    row.delete()
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
    row.pk = pk
    record_row(actor, domain, "role.deleted", row, before=before)


def _set_rules(role: Role, rules: Iterable[Mapping[str, Any]]) -> None:
    RoleRule.objects.filter(role=role).delete()
    for index, rule in enumerate(rules):
        try:
            _check_rule(rule)
            versions.create(RoleRule(role=role, **rule))
        except Invalid as error:
            raise error.below(f"/rules/{index}") from error
    role.__dict__.get("_prefetched_objects_cache", {}).pop("rules", None)


def _check_rule(rule: Mapping[str, Any]) -> None:
    unknown = sorted(set(rule) - RULE_FIELDS)
    if unknown:
        raise Invalid(Problem(f"/{name}", f"`{name}` cannot be set", "unknown") for name in unknown)
    for field in ("prerequisites", "appointments"):
        listed = rule.get(field, [])
        if not isinstance(listed, list) or not all(
            isinstance(name, str) and names.identifier.regex.match(name) for name in listed
        ):
            raise Invalid.at(f"/{field}", "this is a list of names")


@audit.change
def appoint(
    *,
    actor: User | None,
    principal: Principal,
    name: str,
    starts: datetime | None = None,
    ends: datetime | None = None,
) -> Appointment:
    """Give a principal a standing, from now or `starts` on, for good or until `ends`."""
    domain = principal.domain
    permissions.require_manager(actor, domain)
    begin = starts or timezone.now()
    if ends is not None and ends <= begin:
        raise Invalid.at("/ends", "the end must come after the beginning")
    row = versions.create(
        Appointment(principal=principal, name=name, starts=begin, ends=ends, issuer=actor)
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
    permissions.require_manager(actor, domain)
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
