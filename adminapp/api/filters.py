"""Filters that lists of many areas share."""

from __future__ import annotations

import django_filters as filters


class DomainFilter(filters.FilterSet):
    """Filters of everything that belongs to a domain."""

    domain = filters.CharFilter(field_name="domain__name", help_text="Name of the domain.")
