"""What the policies in force rely on, for whoever changes an event type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from adminapp.catalog.mapping import EVENT
from adminapp.catalog.ports import Use
from adminapp.identity.models import Domain
from adminapp.policies import reach, selectors
from adminapp.policies.grants import permitted
from adminapp.policies.models import Policy
from adminapp.policies.valuerules import read
from policyengine.errors import InputError

# Read off the text, for the model may have just lost what the policy names. A name inside of a
# quoted value counts too: that errs on the side of what is in force.
_TESTED: Final = re.compile(rf"(?<![\w.]){re.escape(EVENT)}([A-Za-z_]\w*)")


def in_force(domain: Domain) -> Iterator[Use]:
    """Every policy in force in a domain, as something that stands on event types."""
    for row in selectors.policies_in_force(domain):
        yield Use(
            kind="policy",
            name=row.name,
            owner=row.domain.name,
            event_type=row.event_type.name,
            tests=_tests(row),
            carries=_carries(row),
            says=_says(domain, row),
        )


def _tests(row: Policy) -> frozenset[str]:
    texts = [row.expression, *(rule.when for rule in read(row) if rule.when)]
    return frozenset(name for text in texts for name in _TESTED.findall(text))


def _carries(row: Policy) -> frozenset[str] | None:
    names = permitted(row)
    return None if names is None else frozenset(names)


def _says(domain: Domain, row: Policy) -> Callable[[], str]:
    def says() -> str:
        try:
            people = reach.take(domain).size(policy=row.name)
        except InputError:
            people = 0
        if not people:  # what it tests is gone, or nobody meets it
            return str(row.action)
        return f"{row.action}, {people} principal{'' if people == 1 else 's'}"

    return says
