"""Who may do what: predicates, their names for templates, and the checks that services make.

An operator (superuser) runs the platform. A manager changes a domain, an auditor reads it, and a
delegate reads it and changes a part of it until the delegation ends. Anybody else does not learn
that a domain exists, see `querysets`.
"""

from __future__ import annotations

from typing import Any

import rules

from adminapp.core.errors import Forbidden
from adminapp.identity import ports
from adminapp.identity.models import Delegation, Domain, Membership
from adminapp.identity.querysets import sees, within

VIEW_DOMAIN = "identity.view_domain"
MANAGE_DOMAIN = "identity.manage_domain"
OPERATE = "identity.operate"


@rules.predicate
def is_operator(user: Any) -> bool:
    return bool(user.is_authenticated and user.is_active and user.is_superuser)


@rules.predicate
def is_member(user: Any, domain: Domain | None) -> bool:
    if domain is None:
        return False
    if _memberships(user, domain).exists() or _delegations(user, domain).exists():
        return True
    return bool(user.is_authenticated and user.is_active) and sees(user, domain.pk)


@rules.predicate
def is_manager(user: Any, domain: Domain | None) -> bool:
    if domain is None:
        return False
    return _memberships(user, domain).filter(role=Membership.Role.MANAGER).exists()


def _memberships(user: Any, domain: Domain) -> Any:
    if not (user.is_authenticated and user.is_active and within(user, domain.pk)):
        return Membership.objects.none()
    return Membership.objects.filter(user=user, domain=domain)


def _delegations(user: Any, domain: Domain) -> Any:
    if not (user.is_authenticated and user.is_active and within(user, domain.pk)):
        return Delegation.objects.none()
    return Delegation.objects.filter(user=user, domain=domain).in_force()


rules.add_perm(VIEW_DOMAIN, is_operator | is_member)
rules.add_perm(MANAGE_DOMAIN, is_operator | is_manager)
rules.add_perm(OPERATE, is_operator)


def may_view(user: Any, domain: Domain) -> bool:
    return rules.has_perm(VIEW_DOMAIN, user, domain)


def may_manage(user: Any, domain: Domain) -> bool:
    return rules.has_perm(MANAGE_DOMAIN, user, domain)


def require_manager(actor: Any, domain: Domain) -> None:
    """Raises Forbidden unless the actor manages the domain; None is the system, which may."""
    if actor is not None and not may_manage(actor, domain):
        raise Forbidden(f"only managers of `{domain.name}` may do this")


def require_part(actor: Any, domain: Domain) -> None:
    """Raises Forbidden unless the actor may change something of the domain; what exactly is for
    each service to say.
    """
    if actor is None or may_manage(actor, domain):
        return
    if delegated(actor, domain) == ports.Scope():
        raise Forbidden(f"only managers of `{domain.name}` and their delegates may do this")


def delegated(user: Any, domain: Domain) -> ports.Scope:
    """What of a domain is delegated to a user now, over all their delegations."""
    rows = list(_delegations(user, domain).values_list("roles", "event_types"))
    return ports.Scope(
        frozenset(name for roles, _types in rows for name in roles),
        frozenset(name for _roles, types in rows for name in types),
    )


def may_change(actor: Any, domain: Domain, kind: str, key: str, *, below: str = "") -> bool:
    """Whether an actor may change one object: managers all, delegates what they were given, and
    whoever acts for a principal what policies let it define.

    Args:
        kind: `role`, `appointment`, `appointment-rule`, `event-type` or `policy`; of any other
            kind nothing can be delegated.
        key: the object's name; an appointment's is the one that rules of roles ask for.
        below: for a new object, or one that moves, the event type that it is put under (the
            parent of a type, the type of a policy); it must be covered too.
    """
    if actor is None or may_manage(actor, domain):
        return True
    if not (actor.is_authenticated and actor.is_active and within(actor, domain.pk)):
        return False
    scope = delegated(actor, domain)
    if (scope.roles or scope.event_types) and ports.covered(domain, scope, kind, key, below):
        return True
    return ports.permitted(actor, domain, kind, key, below)


def require_change(actor: Any, domain: Domain, kind: str, key: str, *, below: str = "") -> None:
    """Raises Forbidden unless `may_change`; None is the system, which may."""
    if not may_change(actor, domain, kind, key, below=below):
        raise Forbidden(
            f"only managers of `{domain.name}` and those to whom `{key}` is delegated may do this"
        )


def require_operator(actor: Any) -> None:
    """Raises Forbidden unless the actor is an operator; None is the system, which may."""
    if actor is not None and not is_operator(actor):
        raise Forbidden("only operators may do this")
