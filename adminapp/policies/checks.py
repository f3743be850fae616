"""Whether the policies of a domain still fit its model."""

from __future__ import annotations

from collections.abc import Iterator

from adminapp.core.errors import Problem
from adminapp.identity.models import Domain
from adminapp.policies import selectors
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from policyengine.errors import InputError


def policies(domain: Domain) -> Iterator[Problem]:
    """Policies that a change of the model has broken, switched-off ones included."""
    rows = list(Policy.objects.filter(domain=domain).select_related("event_type"))
    if not rows:
        return
    try:
        spoken = selectors.language(domain)
    except InputError:
        return  # the event types themselves do not fit together; the catalog says so
    for row in rows:
        for problem in policy_problems(row, spoken):
            yield Problem("", f"policy `{row.name}`: {problem.message}", problem.kind)


def policy_problems(row: Policy, spoken: Language) -> list[Problem]:
    """What is wrong with one policy."""
    name = row.event_type.name
    return [
        *spoken.problems(row.expression, name),
        *spoken.attribute_problems(row.attributes, name),
    ]
