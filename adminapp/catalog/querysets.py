"""Which rows of the catalog a user may see."""

from adminapp.identity.querysets import DomainScopedQuerySet


class TypeScopedQuerySet(DomainScopedQuerySet):
    """Rows that belong to an event type."""

    domain_path = "event_type__domain"


class AttributeQuerySet(TypeScopedQuerySet):
    """Attributes."""
