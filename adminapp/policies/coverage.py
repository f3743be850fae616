"""What a delegation of event types covers of the policies on them."""

from __future__ import annotations

from adminapp.catalog import coverage
from adminapp.identity.models import Domain
from adminapp.identity.ports import Scope
from adminapp.policies.models import Policy


def policy(domain: Domain, scope: Scope, key: str, below: str) -> bool:
    """A policy whose event type is covered; one that is made or moves, by its new type too."""
    row = Policy.objects.filter(domain=domain, name=key).select_related("event_type").first()
    if row is not None and not coverage.line(row.event_type, scope):
        return False
    return coverage.named(domain, scope, below) if below else row is not None
