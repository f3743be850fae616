"""Who signs in and acts for a principal, as far as policies let that principal define types."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import CreateMixin, DeleteMixin, ReadViewSet, VersionedSerializer
from adminapp.api.people import active_user
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, User
from adminapp.identity.selectors import principals
from adminapp.policies import defining, representation
from adminapp.policies.models import Representative


class RepresentativeSerializer(VersionedSerializer):
    """A person who acts for a principal."""

    domain = serializers.CharField(source="principal.domain.name", read_only=True)
    principal = serializers.IntegerField(source="principal_id", help_text="Its identifier.")
    principal_name = serializers.CharField(source="principal.name", read_only=True)
    user = serializers.CharField(source="user.username", max_length=150)
    begins = serializers.DateTimeField(read_only=True)
    ends = serializers.DateTimeField(required=False, allow_null=True, help_text="null is never.")
    given_by = serializers.CharField(
        source="given_by.username", read_only=True, allow_null=True, default=None
    )


class RepresentativeFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="principal__domain__name", help_text="Name of the domain."
    )
    principal = filters.NumberFilter(field_name="principal_id")
    user = filters.CharFilter(field_name="user__username", help_text="Name of the user.")


class RepresentativeViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """People who act for principals. DELETE ends it now; it stays on record."""

    serializer_class = RepresentativeSerializer
    filterset_class = RepresentativeFilter

    def rows(self) -> QuerySet[Any]:
        return defining.representatives(self.request.user)

    def domain_of(self, row: Representative) -> Domain:
        return row.principal.domain

    def create_with(self, actor: User, values: dict[str, Any]) -> Representative:
        principal = principals(actor).filter(pk=values["principal_id"]).first()
        if principal is None:
            message = f"there is no principal {values['principal_id']}"
            raise Invalid.at("/principal", message, "unknown")
        self.require_change(principal.domain)
        return representation.represent(
            actor=actor,
            user=active_user(values["user"]["username"]),
            principal=principal,
            ends=values.get("ends"),
        )

    def delete_with(self, actor: User, row: Representative, version: int | None) -> None:
        representation.end_representation(actor=actor, representative=row, expected_version=version)
