"""What a delegation of event types covers."""

from __future__ import annotations

from adminapp.catalog import selectors
from adminapp.catalog.models import EventType
from adminapp.identity.models import Domain
from adminapp.identity.ports import Scope


def event_type(domain: Domain, scope: Scope, key: str, below: str) -> bool:
    """A type that is named, or one below it; a new type is covered by the place it gets."""
    row = EventType.objects.filter(domain=domain, name=key).first()
    if row is None:
        return named(domain, scope, below or key)
    return line(row, scope) and (not below or named(domain, scope, below))


def named(domain: Domain, scope: Scope, name: str) -> bool:
    """Whether the type that a domain knows by this name is covered; inherited ones count."""
    if name in scope.event_types:
        return True
    owner: Domain | None = domain
    while owner is not None:
        row = EventType.objects.filter(domain=owner, name=name).first()
        if row is not None:
            return line(row, scope)
        owner = owner.parent
    return False


def line(row: EventType, scope: Scope) -> bool:
    """Whether a type, or one above it, is named by the scope."""
    above: EventType | None = row
    seen: set[int] = set()
    while above is not None and above.pk not in seen:
        if above.name in scope.event_types:
            return True
        seen.add(above.pk)
        above = above.parent
    return False


def names(domain: Domain) -> list[str]:
    """Types that a delegation may name."""
    return [row.name for row in selectors.domain_types(domain)]
