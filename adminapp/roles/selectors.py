"""Reads of roles, and what policies see of a principal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet
from django.utils import timezone

from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.lineage import Inherited, inherited, lineage, nearest
from adminapp.identity.models import Domain, Principal
from adminapp.roles import activations as columns
from adminapp.roles import mapping
from adminapp.roles.activations import Activations
from adminapp.roles.environment import environment
from adminapp.roles.models import Appointment, Role, RoleRule
from policyengine.attributes import AttributeType, Value
from policyengine.roles import Rule, crowd

SubjectValues: TypeAlias = list[tuple[str, Value]]
_FEW = 500


def roles(user: Any, domain: Domain | None = None) -> QuerySet[Role]:
    found = Role.objects.visible_to(user).select_related("domain").prefetch_related("rules")
    return found if domain is None else found.filter(domain=domain)


def appointments(user: Any, domain: Domain | None = None) -> QuerySet[Appointment]:
    found = Appointment.objects.visible_to(user).select_related("principal__domain", "issuer")
    return found if domain is None else found.filter(principal__domain=domain)


def effective_roles(domain: Domain) -> list[Inherited[Role]]:
    """The roles of a domain, with those from above that it does not define itself, by name."""
    above = lineage(domain)
    rows = Role.objects.filter(domain__in=above).select_related("domain")
    return list(inherited(rows.prefetch_related("rules"), above).values())


def role_names(domain: Domain) -> tuple[str, ...]:
    """Names of the roles that hold in a domain, sorted."""
    rows = Role.objects.filter(domain__in=lineage(domain))
    return tuple(sorted(set(rows.values_list("name", flat=True))))


def rules(domain: Domain) -> tuple[Rule, ...]:
    """The rules that hold in a domain, for the engine; a role's own in their order."""
    rows = RoleRule.objects.filter(role__domain__in=lineage(domain)).select_related("role")
    hidden = _hidden(domain)
    return mapping.rules(row for row in rows if row.role_id not in hidden)


def parameter_schema(domain: Domain) -> dict[str, AttributeType]:
    """What policies may say of the parameters of roles: `subject.role.officer.station`."""
    return mapping.parameter_types(_with_parameters(domain))


def _with_parameters(domain: Domain) -> list[Role]:
    hidden = _hidden(domain)
    rows = Role.objects.filter(domain__in=lineage(domain)).exclude(parameters=[])
    return [row for row in rows.order_by("name") if row.pk not in hidden]


def _hidden(domain: Domain) -> frozenset[int]:
    """Roles from above in whose place the domain, or one between, has its own."""
    above = lineage(domain)
    if len(above) == 1:
        return frozenset()
    rows = list(Role.objects.filter(domain__in=above).only("pk", "name", "domain_id"))
    kept = {row.pk for row in nearest(rows, above).values()}
    return frozenset(row.pk for row in rows if row.pk not in kept)


def activations(
    domain: Domain, *, at: datetime | None = None, principals: Sequence[int] | None = None
) -> Activations:
    """Which roles the principals have at a moment (now by default), in a constant number of
    queries.

    Args:
        principals: primary keys, in the order wanted; all active ones by default.
    """
    moment = at or timezone.now()
    if principals is None:
        state = Principal.State.ACTIVE
        found = Principal.objects.filter(domain=domain, state=state).order_by("pk")
        principals = tuple(found.values_list("pk", flat=True))
    held = Appointment.objects.filter(principal__domain=domain).active(moment).order_by()
    if len(principals) <= _FEW:
        held = held.filter(principal__in=principals)
    positions = {pk: position for position, pk in enumerate(principals)}
    everybody = crowd(
        rules(domain),
        columns.held(held, positions),
        len(principals),
        environment(domain, moment),
    )
    declared = {row.name: mapping.parameters(row) for row in _with_parameters(domain)}
    return columns.activations_of(everybody, principals, declared)


def active_roles(principal: Principal, *, at: datetime | None = None) -> frozenset[str]:
    """The roles that a principal has at a moment (now by default)."""
    return frozenset(activations(principal.domain, at=at, principals=[principal.pk]).roles)


def subject_values(
    principal: Principal, *, at: datetime | None = None
) -> tuple[SubjectValues, ...]:
    """What policies see of a principal: its variants, of which any may satisfy a policy.

    Returns:
        Of each variant pairs of full name and value, each name once, sorted: its attributes, one
        true value for each active role, and the parameters of one activation of each role.
        `("subject.carrier", "UA")`, `("subject.role.airline", True)`.
    """
    return subject_values_of(principal.domain, [principal], at=at)[principal.pk]


def subject_values_of(
    domain: Domain, principals: Iterable[Principal], *, at: datetime | None = None
) -> dict[int, tuple[SubjectValues, ...]]:
    """`subject_values` of many principals of one domain, by primary key.

    One without variants (it would have too many) satisfies no policy.
    """
    rows = list(principals)
    variants = activations(domain, at=at, principals=[row.pk for row in rows]).variants()
    return {row.pk: tuple(_pairs(row, variant) for variant in variants[row.pk]) for row in rows}


def _pairs(principal: Principal, variant: Mapping[str, Value]) -> SubjectValues:
    own = [(f"{SUBJECT}{name}", value) for name, value in principal.attributes.items()]
    return sorted([*own, *variant.items()])
