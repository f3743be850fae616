"""Reads of roles, and what policies see of a principal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.lineage import Inherited, inherited, lineage, nearest
from adminapp.identity.models import Domain, Principal
from adminapp.roles import activations as columns
from adminapp.roles import mapping, standing
from adminapp.roles.activations import Activations
from adminapp.roles.environment import clock_tests as ask_clock
from adminapp.roles.environment import environment
from adminapp.roles.explaining import explain_role, explain_roles
from adminapp.roles.models import (
    Appointment,
    AppointmentRule,
    Role,
    RoleRule,
    RoleSession,
    RoleSettings,
)
from adminapp.roles.reading import read_parameters, references
from adminapp.roles.standing import by_session, rules
from policyengine.attributes import AttributeType, Literal, Value
from policyengine.roles import read_atom

SubjectValues: TypeAlias = list[tuple[str, Value]]

__all__ = [
    "SubjectValues",
    "activations",
    "active_roles",
    "appointing_problem",
    "appointment_rule",
    "appointment_rules",
    "appointments",
    "by_session",
    "clock_tests",
    "effective_appointment_rules",
    "effective_roles",
    "environment_names",
    "explain_role",
    "explain_roles",
    "next_boundary",
    "orphaned",
    "parameter_schema",
    "role_names",
    "role_settings",
    "roles",
    "rules",
    "sessions",
    "subject_values",
    "subject_values_of",
]


def roles(user: Any, domain: Domain | None = None) -> QuerySet[Role]:
    found = Role.objects.visible_to(user).select_related("domain").prefetch_related("rules")
    return found if domain is None else found.filter(domain=domain)


def appointments(user: Any, domain: Domain | None = None) -> QuerySet[Appointment]:
    found = Appointment.objects.visible_to(user).select_related(
        "principal__domain", "issuer", "issued_by"
    )
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


def effective_appointment_rules(domain: Domain) -> list[Inherited[AppointmentRule]]:
    """Who may appoint in a domain, with what comes from above, by name."""
    above = lineage(domain)
    rows = AppointmentRule.objects.filter(domain__in=above).select_related("domain")
    return list(inherited(rows, above).values())


def appointment_rule(domain: Domain, name: str) -> AppointmentRule | None:
    """The rule for appointments of a name, the domain's own or the nearest from above."""
    above = lineage(domain)
    rows = AppointmentRule.objects.filter(domain__in=above, name=name)
    return nearest(rows, above).get(name)


def appointment_rules(user: Any, domain: Domain | None = None) -> QuerySet[AppointmentRule]:
    found = AppointmentRule.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def sessions(user: Any, domain: Domain | None = None) -> QuerySet[RoleSession]:
    found = RoleSession.objects.visible_to(user).select_related("principal__domain", "opened_by")
    found = found.prefetch_related("roles")
    return found if domain is None else found.filter(principal__domain=domain)


def role_settings(user: Any, domain: Domain | None = None) -> QuerySet[RoleSettings]:
    found = RoleSettings.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def environment_names(domain: Domain) -> frozenset[str]:
    """Everything that constraints may speak of, by full name."""
    return frozenset(environment(domain, timezone.now()))


def parameter_schema(domain: Domain) -> dict[str, AttributeType]:
    """What policies may say of the parameters of roles: `subject.role.officer.station`."""
    return mapping.parameter_types(standing.with_parameters(domain))


def appointing_problem(issuer: Principal, appointment: Appointment) -> str | None:
    """Why a principal may not give an appointment now, or None when it may."""
    name = appointment.name
    rule = appointment_rule(issuer.domain, name)
    if rule is None or not rule.by:
        return f"no rule says that a principal may appoint to `{name}`; managers may"
    declared = [each.name for each in read_parameters(rule.parameters)]
    values = dict(zip(declared, appointment.parameters, strict=False))
    active = standing.active_atoms(issuer, at=timezone.now())
    for text in rule.by:
        asked = read_atom(text)
        wanted = tuple(values.get(each) for each in references(asked))
        if any(
            role.name == asked.name and (not asked.terms or role.terms == wanted) for role in active
        ):
            return None
    listed = " or ".join(f"`{text}`" for text in rule.by)
    return f"`{issuer.name}` has no role that may appoint to `{name}`: {listed}"


def orphaned(names: Mapping[str, set[str]], everybody: Iterable[str]) -> list[Appointment]:
    """Appointments that lapse with their issuer, and whose issuer may not give them any more.

    Args:
        names: issuers to look at, by name of the domain.
        everybody: domains whose every issuer is looked at.
    """
    concerned = Q(issued_by__domain__name__in=list(everybody))
    for domain, listed in names.items():
        concerned |= Q(issued_by__domain__name=domain, issued_by__name__in=listed)
    rows = Appointment.objects.lasting().filter(concerned, closed__isnull=True)
    found = []
    for row in rows.select_related("principal__domain", "issued_by__domain").order_by("pk"):
        rule = appointment_rule(row.principal.domain, row.name)
        if rule is None or not rule.lapses_with_issuer:
            continue
        revoked = row.issued_by.state == Principal.State.REVOKED
        if revoked or appointing_problem(row.issued_by, row) is not None:
            found.append(row)
    return found


def next_boundary(domain: Domain, *, after: datetime) -> datetime | None:
    """When the next appointment begins or lapses."""
    held = Appointment.objects.filter(principal__domain=domain)
    found = held.aggregate(
        starts=Min("starts", filter=Q(starts__gt=after)),
        ends=Min("ends", filter=Q(ends__gt=after)),
    )
    return min((each for each in found.values() if each is not None), default=None)


def clock_tests(domain: Domain) -> list[Literal]:
    """What the constraints of a domain's roles ask the clock."""
    rows = RoleRule.objects.filter(role__domain__in=lineage(domain)).exclude(constraints=[])
    found = mapping.rules(rows.select_related("role"))
    return ask_clock(each for rule in found for each in rule.constraints)


def activations(
    domain: Domain,
    *,
    at: datetime | None = None,
    principals: Sequence[int] | None = None,
    roles: Collection[str] | None = None,
) -> Activations:
    """Which roles the principals have at a moment (now by default), in a constant number of
    queries.

    Args:
        principals: primary keys, in the order wanted; all active ones by default.
        roles: names of the roles that matter; all by default.
    """
    moment = at or timezone.now()
    if principals is None:
        state = Principal.State.ACTIVE
        found = Principal.objects.filter(domain=domain, state=state).order_by("pk")
        principals = tuple(found.values_list("pk", flat=True))
    declared = {row.name: mapping.parameters(row) for row in standing.with_parameters(domain)}
    if not standing.by_session(domain):
        # Roles with parameters always matter: with too many variants a principal has no rights.
        wanted = None if roles is None else {*roles, *declared}
        everybody = standing.possible(domain, principals, moment, roles=wanted)
        return columns.activations_of(everybody, principals, declared)
    everybody, owners = standing.activated(domain, principals, moment)
    return columns.of_sessions(everybody, owners, principals, declared)


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
