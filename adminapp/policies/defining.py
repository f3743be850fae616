"""Who may define event types by policy: people who sign in and act for a principal.

Paper 002, section 3.3: `define` registers a type, and (section 4.2) its policy controls "the
ability to modify and remove existing types and to create sub-types". A policy to define that hangs
on a type lets its principals make, change and remove types below it; the type itself stays with
the managers, or the policy could be turned against what it stands on.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F, QuerySet

from adminapp.identity.models import Domain, Membership, Principal
from adminapp.policies import selectors
from adminapp.policies.models import Policy, Representative
from adminapp.roles import selectors as roles


def representatives(user: Any, domain: Domain | None = None) -> QuerySet[Representative]:
    """Past ones included."""
    found = Representative.objects.visible_to(user).select_related(
        "user", "principal__domain", "given_by"
    )
    return found if domain is None else found.filter(principal__domain=domain)


def sight(user: Any) -> QuerySet[Any]:
    """Domains of the principals that a user acts for now."""
    held = Representative.objects.in_force().filter(user=user).order_by()
    return held.annotate(domain=F("principal__domain")).values("domain")


def principals_of(user: Any, domain: Domain) -> list[Principal]:
    """The principals of a domain that a user acts for now. Whoever audits the domain only reads."""
    audits = Membership.objects.filter(user=user, domain=domain, role=Membership.Role.AUDITOR)
    if not user.is_active or audits.exists():
        return []
    held = Representative.objects.in_force().filter(user=user, principal__domain=domain)
    living = held.filter(principal__state=Principal.State.ACTIVE).order_by("principal_id")
    return [row.principal for row in living.select_related("principal__domain")]


def may_define(user: Any, domain: Domain, key: str, below: str) -> bool:
    """Whether policies let a user make, change or remove an event type.

    Args:
        key: its name.
        below: its parent, where it is new or moves.
    """
    people = principals_of(user, domain)
    tops = tops_of(domain, people) if people else []
    if not tops:
        return False
    types = selectors.language(domain).types
    known = key in types.names
    if known and not any(key != top and key in types.subtree(top) for top in tops):
        return False
    if not below:
        return known
    return any(below in types.subtree(top) for top in tops)


def tops_of(domain: Domain, people: list[Principal]) -> list[str]:
    """The types below which some of these principals may define types now."""
    rows = [row for row in selectors.effective_rows(domain) if row.action == Policy.Action.DEFINE]
    if not rows:
        return []
    spoken = selectors.language(domain)
    held = roles.subject_values_of(domain, people)
    variants = [dict(variant) for person in people for variant in held[person.pk]]
    return [
        grant.root
        for grant in selectors.grants_of(rows, spoken)
        for way in grant.conjunctions
        if any(way.for_subject(values) is not None for values in variants)
    ]
