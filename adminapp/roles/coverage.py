"""What a delegation of roles covers."""

from __future__ import annotations

from adminapp.identity.models import Domain
from adminapp.identity.ports import Scope
from adminapp.roles import selectors
from adminapp.roles.reading import credentials


def role(_domain: Domain, scope: Scope, key: str, _below: str) -> bool:
    return key in scope.roles


def appointment(domain: Domain, scope: Scope, key: str, _below: str) -> bool:
    """Appointments that covered roles ask for, and no other role.

    A delegate who writes the name of a foreign appointment into a rule of their own role must not
    get to give that appointment: it would open the other roles that ask for it.
    """
    asking = {
        rule.role.name
        for rule in selectors.rules(domain)
        if key in {each.atom.name for each in credentials(rule, "appointment")}
    }
    return bool(asking) and asking <= scope.roles
