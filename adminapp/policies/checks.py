"""Whether the policies of a domain still fit its model."""

from __future__ import annotations

from collections.abc import Iterator

from adminapp.core.errors import Problem
from adminapp.identity.models import Domain
from adminapp.policies import selectors, valuerules
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from adminapp.policies.valuerules import ACCESS
from policyengine.attributes import unknown
from policyengine.errors import InputError


def policies(domain: Domain) -> Iterator[Problem]:
    """Policies that a change of the model has broken, switched-off ones included.

    Inherited ones are left alone: where they do not fit what the domain overrides they grant
    nothing, and its findings say so.
    """
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
    if name not in spoken.types.names:
        error = unknown("event type", name, spoken.types.names)
        return [Problem.from_input_error(error, "/event_type")]
    return [
        *(spoken.problems(row.expression, name) or _beside_the_point(row, spoken)),
        *spoken.attribute_problems(row.attributes, name),
        *valuerules.problems(row, spoken),
    ]


def _beside_the_point(row: Policy, spoken: Language) -> Iterator[Problem]:
    """What a policy about types says of single events."""
    if row.action in ACCESS:
        return
    if row.attributes is not None:
        yield Problem("/attributes", f"to {row.action} a type is not about single attributes")
    for way in spoken.ways(row.expression, row.event_type.name):
        if way.event or way.joins or any(tie.right.startswith("event.") for tie in way.ties):
            message = f"to {row.action} a type is not about single events, so `event.` says nothing"
            yield Problem("/expression", message, "unsupported")
            return
