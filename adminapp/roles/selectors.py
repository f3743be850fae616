"""Reads of roles, and what policies see of a principal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet

from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.models import Domain, Principal
from adminapp.roles import mapping
from adminapp.roles.models import Appointment, Role, RoleRule
from policyengine.attributes import Value
from policyengine.roles import RoleRule as Rule
from policyengine.roles import active_roles as engine_active_roles

SubjectValues: TypeAlias = list[tuple[str, Value]]


def roles(user: Any, domain: Domain | None = None) -> QuerySet[Role]:
    found = Role.objects.visible_to(user).select_related("domain").prefetch_related("rules")
    return found if domain is None else found.filter(domain=domain)


def appointments(user: Any, domain: Domain | None = None) -> QuerySet[Appointment]:
    found = Appointment.objects.visible_to(user).select_related("principal__domain", "issuer")
    return found if domain is None else found.filter(principal__domain=domain)


def role_names(domain: Domain) -> tuple[str, ...]:
    return tuple(Role.objects.filter(domain=domain).values_list("name", flat=True))


def rules(domain: Domain) -> tuple[Rule, ...]:
    """The domain's rules for the engine."""
    return mapping.rules(RoleRule.objects.filter(role__domain=domain).select_related("role"))


def active_roles(principal: Principal, *, at: datetime | None = None) -> frozenset[str]:
    """The roles that a principal's appointments activate at a moment (now by default)."""
    held = Appointment.objects.filter(principal=principal).active(at)
    names = set(held.values_list("name", flat=True))
    return engine_active_roles(rules(principal.domain), names, {})


def subject_values(principal: Principal, *, at: datetime | None = None) -> SubjectValues:
    """What policies see of a principal: its attributes, and one true value for each active role.

    Returns:
        Pairs of full name and value, each name once, sorted: `("subject.carrier", "UA")`,
        `("subject.role.airline", True)`.
    """
    return _pairs(principal, active_roles(principal, at=at))


def subject_values_of(
    domain: Domain, principals: Iterable[Principal], *, at: datetime | None = None
) -> dict[int, SubjectValues]:
    """`subject_values` of many principals of one domain, by primary key, in two queries."""
    domain_rules = rules(domain)
    held: dict[int, set[str]] = {}
    rows = Appointment.objects.filter(principal__domain=domain).active(at)
    for principal_id, name in rows.values_list("principal_id", "name"):
        held.setdefault(principal_id, set()).add(name)
    return {
        principal.pk: _pairs(
            principal, engine_active_roles(domain_rules, held.get(principal.pk, set()), {})
        )
        for principal in principals
    }


def _pairs(principal: Principal, active: Iterable[str]) -> SubjectValues:
    own = [(f"{SUBJECT}{name}", value) for name, value in principal.attributes.items()]
    return sorted([*own, *((mapping.role_attribute(name), True) for name in active)])
