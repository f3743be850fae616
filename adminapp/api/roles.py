"""Roles with their rules, and appointments."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
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
from adminapp.roles import mapping, selectors, services
from adminapp.roles.models import Appointment, Role, RoleRule


@extend_schema_field({"type": "array", "items": {"type": "string"}})
class ConstraintsField(serializers.Field):
    """A list of texts; one text may stand alone."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "type": {"type": "object"}},
                "required": ["name"],
            },
        ]
    }
)
class ParameterField(serializers.Field):
    """The name of a parameter, or an object with its name and type."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number"}]})
class TermField(ParameterField):
    """Text or a number."""


class RuleSerializer(StrictSerializer):
    """One way to activate a role."""

    role = serializers.CharField(
        required=False, help_text="What is activated: `officer(x)`; the bare name by default."
    )
    prerequisites = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Roles: `employee(x)`."
    )
    appointments = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Appointments: `badge(x, y)`."
    )
    constraints = ConstraintsField(
        required=False, help_text="Conditions on the environment: `env.hour >= 9`."
    )
    membership = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="The conditions above that must keep holding; all by default.",
    )

    def to_representation(self, instance: RoleRule) -> dict[str, Any]:
        return mapping.rule_document(instance)


class RoleSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    parameters = serializers.ListField(child=ParameterField(), required=False)
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
    parameters = serializers.ListField(
        child=TermField(), required=False, help_text="Values: `[7, West]` of `badge(7, West)`."
    )
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
