"""Who may do what: predicates, their names for templates, and the checks that services make.

An operator (superuser) runs the platform. A manager changes a domain, an auditor reads it. A user
without a membership does not learn that a domain exists, see `querysets`.
"""

from __future__ import annotations

from typing import Any

import rules

from adminapp.core.errors import Forbidden
from adminapp.identity.models import Domain, Membership

VIEW_DOMAIN = "identity.view_domain"
MANAGE_DOMAIN = "identity.manage_domain"
OPERATE = "identity.operate"


@rules.predicate
def is_operator(user: Any) -> bool:
    return bool(user.is_authenticated and user.is_active and user.is_superuser)


@rules.predicate
def is_member(user: Any, domain: Domain | None) -> bool:
    return domain is not None and _memberships(user, domain).exists()


@rules.predicate
def is_manager(user: Any, domain: Domain | None) -> bool:
    if domain is None:
        return False
    return _memberships(user, domain).filter(role=Membership.Role.MANAGER).exists()


def _memberships(user: Any, domain: Domain) -> Any:
    if not (user.is_authenticated and user.is_active):
        return Membership.objects.none()
    return Membership.objects.filter(user=user, domain=domain)


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


def require_operator(actor: Any) -> None:
    """Raises Forbidden unless the actor is an operator; None is the system, which may."""
    if actor is not None and not is_operator(actor):
        raise Forbidden("only operators may do this")
