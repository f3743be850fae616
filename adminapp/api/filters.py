"""Filters that lists of many areas share."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet

from adminapp.api.throttling import count_call
from adminapp.identity.models import Domain


class DomainFilter(filters.FilterSet):
    """Filters of everything that belongs to a domain."""

    domain = filters.CharFilter(field_name="domain__name", help_text="Name of the domain.")

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """A list of one domain is a call for that domain."""
        name = self.form.cleaned_data.get("domain")
        if name and self.request is not None:
            domain = Domain.objects.visible_to(self.request.user).filter(name=name).first()
            if domain is not None:
                count_call(self.request, domain)
        return super().filter_queryset(queryset)
