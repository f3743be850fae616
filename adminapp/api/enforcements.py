"""Who enforced which revision when."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import ReadViewSet, StrictSerializer
from adminapp.api.filters import DomainFilter
from adminapp.distribution import history


class EnforcementSerializer(StrictSerializer):
    """From when on an audience said, signed, that a revision is in force at it."""

    id = serializers.IntegerField(read_only=True)
    domain = serializers.CharField(source="domain.name", read_only=True)
    audience = serializers.CharField(read_only=True)
    revision = serializers.IntegerField(read_only=True, help_text="0 is none.")
    digest = serializers.CharField(read_only=True)
    applied_at = serializers.DateTimeField(read_only=True)
    proven = serializers.BooleanField(
        read_only=True, help_text="Whether that revision with that digest was built for it."
    )


class EnforcementFilter(DomainFilter):
    audience = filters.CharFilter(help_text="Such as `agent:alpha`.")
    revision = filters.NumberFilter()
    proven = filters.BooleanFilter()
    since = filters.IsoDateTimeFilter(field_name="applied_at", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="applied_at", lookup_expr="lt")


class EnforcementViewSet(ReadViewSet):
    """Who enforced which revision when, told from signed acknowledgements alone."""

    serializer_class = EnforcementSerializer
    filterset_class = EnforcementFilter

    def rows(self) -> QuerySet[Any]:
        return history.entries(self.request.user)
