"""What a user may do in a domain, in the console's words."""

from __future__ import annotations

from typing import Any

from adminapp.identity import permissions
from adminapp.identity.models import Domain
from adminapp.identity.ports import Scope


def may_change(user: Any, domain: Domain) -> bool:
    """Whether the user manages the domain; auditors only read."""
    return permissions.may_manage(user, domain)


def standing(user: Any, domain: Domain | None) -> str:
    """One line for the user's menu."""
    if user.is_superuser:
        return "Operator: may change every domain"
    if domain is None:
        return "Member of your own domains"
    place = domain.title or domain.name
    if may_change(user, domain):
        return f"Manager of {place}"
    if permissions.delegated(user, domain) != Scope():
        return f"Delegate of {place}: may change a part, and read the rest"
    return f"Auditor of {place}: may read, not change"
