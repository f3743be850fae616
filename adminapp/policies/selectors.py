"""Reads of policies: what they permit, and their normal form for encoding."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from adminapp.catalog import selectors as catalog
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain
from adminapp.policies.access import Rule, Subject
from adminapp.policies.language import Language, PolicyConjunction
from adminapp.policies.models import Policy, PolicyVersion
from adminapp.roles import selectors as roles


def policies(user: Any, domain: Domain | None = None) -> QuerySet[Policy]:
    found = Policy.objects.visible_to(user).select_related("domain", "event_type")
    return found if domain is None else found.filter(domain=domain)


def versions(user: Any, policy: Policy) -> QuerySet[PolicyVersion]:
    """What a policy was, newest first."""
    return (
        PolicyVersion.objects.visible_to(user)
        .filter(policy=policy)
        .select_related("actor")
        .order_by("-number")
    )


def policies_in_force(domain: Domain, *, at: datetime | None = None) -> list[Policy]:
    """Enabled and valid at a moment (now by default)."""
    rows = Policy.objects.filter(domain=domain).select_related("event_type")
    return [row for row in rows if row.in_force(at)]


def language(domain: Domain) -> Language:
    """What expressions of a domain may say; build it once for many policies."""
    return Language(
        subject={**catalog.subject_schema(domain), **roles.parameter_schema(domain)},
        roles=roles.role_names(domain),
        types=catalog.engine_types(domain),
    )


def policy_conjunctions(
    policy: Policy, *, spoken: Language | None = None
) -> tuple[PolicyConjunction, ...]:
    """The normal form of a policy, split into subject literals, event literals and joins.

    Args:
        spoken: the domain's language, when the caller has it already.

    Raises:
        InputError: the policy no longer fits the domain's model.
    """
    found = spoken or language(policy.domain)
    return found.conjunctions(policy.expression, policy.event_type.name)


def subjects(domain: Domain, *, at: datetime | None = None) -> list[Subject]:
    """The active principals as policies see them, in a constant number of queries.

    A principal stands there once for each of its variants (`roles.selectors.subject_values_of`).
    """
    principals = list(identity.active_principals(domain))
    values = roles.subject_values_of(domain, principals, at=at)
    return [
        Subject(row.name, row.handle, row.kind, dict(variant))
        for row in principals
        for variant in values[row.pk]
    ]


def rule(policy: Policy, spoken: Language) -> Rule:
    """A policy, ready to be evaluated."""
    root = policy.event_type.name
    types = (root, *(name for name in spoken.types.subtree(root) if name != root))
    return Rule(
        policy=policy.name,
        action=policy.action,
        types={name: _permitted(policy, spoken, name) for name in types},
        conjunctions=policy_conjunctions(policy, spoken=spoken),
    )


def next_boundary(domain: Domain, *, after: datetime) -> datetime | None:
    """When the next policy or appointment begins or ends by itself, or a certificate runs out."""
    from adminapp.roles.models import Appointment

    moments = [
        *Policy.objects.filter(domain=domain, valid_from__gt=after).values_list(
            "valid_from", flat=True
        ),
        *Policy.objects.filter(domain=domain, valid_until__gt=after).values_list(
            "valid_until", flat=True
        ),
    ]
    held = Appointment.objects.filter(principal__domain=domain)
    moments += held.filter(starts__gt=after).values_list("starts", flat=True)
    moments += held.filter(ends__gt=after).values_list("ends", flat=True)
    expiry = identity.next_expiry(domain, after=after)
    moments += [] if expiry is None else [expiry]
    return min(moments, default=None)


def _permitted(policy: Policy, spoken: Language, event_type: str) -> tuple[str, ...]:
    names = [spec.name for spec in spoken.types.attributes(event_type)]
    allowed = policy.attributes
    return tuple(name for name in names if allowed is None or name in allowed)
