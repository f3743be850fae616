"""Whether the rules of a domain fit together."""

from __future__ import annotations

from collections.abc import Iterator

from adminapp.core.errors import Problem
from adminapp.identity.models import Domain
from adminapp.roles import selectors
from policyengine.attributes import unknown
from policyengine.errors import InputError
from policyengine.roles import active_roles, constraint_met


def rules(domain: Domain) -> Iterator[Problem]:
    """Prerequisites that are no roles of the domain; circles; constraints that cannot be read."""
    known = set(selectors.role_names(domain))
    found = selectors.rules(domain)
    for rule in found:
        for name in rule.prerequisites:
            if name not in known:
                error = unknown("role", name, known)
                yield Problem.from_input_error(error, "/rules")
    try:
        active_roles(found, (), {})
        for rule in found:
            constraint_met(rule, {})
    except InputError as error:
        yield Problem.from_input_error(error, "/rules")
