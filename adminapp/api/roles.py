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
from adminapp.roles.findings import findings
from adminapp.roles.models import (
    Appointment,
    AppointmentRule,
    Role,
    RoleRule,
)


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


class ActivationRuleSerializer(StrictSerializer):
    """One way to activate a role."""

    role = serializers.CharField(
        required=False,
        max_length=4096,
        help_text="What is activated: `officer(x)`; the bare name by default.",
    )
    prerequisites = serializers.ListField(
        child=serializers.CharField(max_length=4096),
        required=False,
        help_text="Roles: `employee(x)`.",
    )
    appointments = serializers.ListField(
        child=serializers.CharField(max_length=4096),
        required=False,
        help_text="Appointments: `badge(x, y)`.",
    )
    constraints = ConstraintsField(
        required=False, help_text="Conditions on the environment: `env.hour >= 9`."
    )
    membership = serializers.ListField(
        child=serializers.CharField(max_length=20_000),
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
    rules = ActivationRuleSerializer(many=True, required=False)


class RoleFindingSerializer(serializers.Serializer[Any]):
    """Something about a role that its author hardly meant."""

    role = serializers.CharField()
    rule = serializers.IntegerField(allow_null=True, help_text="Which of its rules, from 0.")
    kind = serializers.CharField()
    detail = serializers.CharField()
    suggestion = serializers.CharField(allow_null=True)


class RoleDetailSerializer(RoleSerializer):
    """A role with what was found about it."""

    findings = serializers.SerializerMethodField()

    @extend_schema_field(RoleFindingSerializer(many=True))
    def get_findings(self, row: Role) -> list[dict[str, Any]]:
        return [each.to_json() for each in findings(row.domain) if each.role == row.name]


class RoleViewSet(ServiceViewSet):
    """Roles; their rules are alternatives."""

    kind = "role"
    serializer_class = RoleDetailSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def get_serializer_class(self) -> type[RoleSerializer]:
        return RoleSerializer if self.action == "list" else RoleDetailSerializer

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


# -- who may appoint -------------------------------------------------------------------------


class AppointmentRuleSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    parameters = serializers.ListField(child=ParameterField(), required=False)
    by = serializers.ListField(
        child=serializers.CharField(max_length=4096),
        required=False,
        help_text="Roles that may appoint: `chief`, or `chief(station)` with parameters of the"
        " appointment.",
    )
    longest = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**31 - 1,
        help_text="How many seconds such an appointment may last; null is for good.",
    )
    lapses_with_issuer = serializers.BooleanField(
        required=False, help_text="Whether it ends when who gave it may not give it any more."
    )


class AppointmentRuleViewSet(ServiceViewSet):
    """Who may appoint, beside managers, and for how long."""

    kind = "appointment-rule"
    serializer_class = AppointmentRuleSerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.appointment_rules(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> AppointmentRule:
        return services.create_appointment_rule(actor=actor, **values)

    def update_with(
        self, actor: User, row: AppointmentRule, values: dict[str, Any], version: int | None
    ) -> AppointmentRule:
        return services.update_appointment_rule(
            actor=actor, appointment_rule=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: AppointmentRule, version: int | None) -> None:
        services.delete_appointment_rule(
            actor=actor, appointment_rule=row, expected_version=version
        )


# -- appointments ----------------------------------------------------------------------------


class AppointmentSerializer(VersionedSerializer):
    domain = serializers.CharField(source="principal.domain.name", read_only=True)
    principal = serializers.IntegerField(source="principal_id", help_text="Its identifier.")
    principal_name = serializers.CharField(source="principal.name", read_only=True)
    name = serializers.CharField(max_length=64)
    parameters = serializers.ListField(
        child=TermField(), required=False, help_text="Values: `[7, West]` of `badge(7, West)`."
    )
    number = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=32_767,
        help_text="Tells it from others that say the same; the least free one by default.",
    )
    starts = serializers.DateTimeField(required=False)
    ends = serializers.DateTimeField(required=False, allow_null=True)
    closed = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When it ended, or its lapse was recorded."
    )
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)
    issuer = serializers.CharField(source="issuer.username", read_only=True, allow_null=True)
    issued_by = serializers.IntegerField(
        source="issued_by_id",
        required=False,
        allow_null=True,
        help_text="The principal that gives it by one of its roles; null when a manager does.",
    )
    issued_by_name = serializers.CharField(source="issued_by.name", read_only=True, allow_null=True)


class AppointmentFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="principal__domain__name", help_text="Name of the domain."
    )
    principal = filters.NumberFilter(field_name="principal_id")
    name = filters.CharFilter()
    open = filters.BooleanFilter(
        field_name="closed", lookup_expr="isnull", help_text="Whether it has not ended yet."
    )


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
        principal = principal_of(actor, values.pop("principal_id"), "/principal")
        issuer = values.pop("issued_by_id", None)
        return services.appoint(
            actor=actor,
            principal=principal,
            issued_by=None if issuer is None else principal_of(actor, issuer, "/issued_by"),
            **values,
        )

    def delete_with(self, actor: User, row: Appointment, version: int | None) -> None:
        services.end_appointment(actor=actor, appointment=row, expected_version=version)


def principal_of(actor: User, pk: int, pointer: str) -> Principal:
    """The principal of a number, if the actor may see it."""
    found = principals(actor).filter(pk=pk).first()
    if found is None:
        raise Invalid.at(pointer, f"there is no principal {pk}", "unknown")
    return found
