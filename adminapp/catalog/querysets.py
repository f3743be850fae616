"""Which rows of the catalog a user may see."""

from adminapp.identity.querysets import DomainScopedQuerySet


class AttributeQuerySet(DomainScopedQuerySet):
    domain_path = "event_type__domain"
