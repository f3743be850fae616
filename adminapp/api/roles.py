"""Roles with their rules, and appointments."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import (
    CreateMixin,
    DeleteMixin,
    ReadViewSet,
    ServiceViewSet,
    StrictSerializer,
    VersionedSerializer,
)
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.selectors import principals
from adminapp.roles import selectors, services
from adminapp.roles.models import Appointment, Role


class RuleSerializer(StrictSerializer):
    """One way to activate a role."""

    prerequisites = serializers.ListField(child=serializers.CharField(), required=False)
    appointments = serializers.ListField(child=serializers.CharField(), required=False)
    constraints = serializers.CharField(required=False, allow_blank=True)


class RoleSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    rules = RuleSerializer(many=True, required=False)


class RoleViewSet(ServiceViewSet):
    """Roles; their rules are alternatives."""

    kind = "role"
    serializer_class = RoleSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.roles(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Role:
        return services.create_role(actor=actor, **values)

    def update_with(
        self, actor: User, row: Role, values: dict[str, Any], version: int | None
    ) -> Role:
        rules = values.pop("rules", None)
        return services.update_role(
            actor=actor, role=row, data=values, rules=rules, expected_version=version
        )

    def delete_with(self, actor: User, row: Role, version: int | None) -> None:
        services.delete_role(actor=actor, role=row, expected_version=version)


class AppointmentSerializer(VersionedSerializer):
    domain = serializers.CharField(source="principal.domain.name", read_only=True)
    principal = serializers.IntegerField(source="principal_id", help_text="Its identifier.")
    principal_name = serializers.CharField(source="principal.name", read_only=True)
    name = serializers.CharField(max_length=64)
    starts = serializers.DateTimeField(required=False)
    ends = serializers.DateTimeField(required=False, allow_null=True)
    issuer = serializers.CharField(source="issuer.username", read_only=True, allow_null=True)


class AppointmentFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="principal__domain__name", help_text="Name of the domain."
    )
    principal = filters.NumberFilter(field_name="principal_id")
    name = filters.CharFilter()


class AppointmentViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """Standings of principals. DELETE ends one now; it stays on record."""

    kind = "appointment"
    serializer_class = AppointmentSerializer
    filterset_class = AppointmentFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.appointments(self.request.user)

    def domain_of(self, row: Appointment) -> Domain:
        return row.principal.domain

    def create_with(self, actor: User, values: dict[str, Any]) -> Appointment:
        principal = _principal(actor, values.pop("principal_id"))
        return services.appoint(actor=actor, principal=principal, **values)

    def delete_with(self, actor: User, row: Appointment, version: int | None) -> None:
        services.end_appointment(actor=actor, appointment=row, expected_version=version)


def _principal(actor: User, pk: int) -> Principal:
    found = principals(actor).filter(pk=pk).first()
    if found is None:
        raise Invalid.at("/principal", f"there is no principal {pk}", "unknown")
    return found
