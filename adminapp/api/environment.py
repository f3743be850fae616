"""What policies may name as `env.*`: variables, and what they are set to."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ServiceViewSet, StrictSerializer, VersionedSerializer
from adminapp.api.catalog import TYPE_HELP
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.identity.models import User
from adminapp.policies import environment, variables
from adminapp.policies.models import EnvironmentVariable


class VariableSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64, help_text="Policies name it as `env.<name>`.")
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    type = serializers.JSONField(help_text=TYPE_HELP)
    value = serializers.JSONField(
        read_only=True, allow_null=True, help_text="What it is set to; null is not set."
    )
    set_at = serializers.DateTimeField(read_only=True, allow_null=True)


class ValueSerializer(StrictSerializer):
    """What a variable is set to."""

    value = serializers.JSONField(
        allow_null=True, help_text="A value of the variable's type; null takes it back."
    )


class EnvironmentViewSet(ServiceViewSet):
    """Facts about the world that policies and roles of a domain may depend on."""

    serializer_class = VariableSerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return environment.variables(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> EnvironmentVariable:
        return variables.declare_variable(actor=actor, **values)

    def update_with(
        self, actor: User, row: EnvironmentVariable, values: dict[str, Any], version: int | None
    ) -> EnvironmentVariable:
        return variables.update_variable(
            actor=actor, variable=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: EnvironmentVariable, version: int | None) -> None:
        variables.delete_variable(actor=actor, variable=row, expected_version=version)

    @extend_schema(
        operation_id="environment_value",
        request=ValueSerializer,
        responses=VariableSerializer,
        filters=False,
    )
    @action(
        detail=False,
        methods=["put"],
        url_path="<slug:domain>/<str:name>",
        url_name="value",
        filter_backends=[],
        pagination_class=None,
    )
    def value(self, request: Request, domain: str, name: str) -> Response:
        """Say what is the case now. Policies that ask for it follow at once, with a revision.

        A fact has no version to be based on: the last word holds.
        """
        row = self.rows().filter(domain__name=domain, name=name).first()
        if row is None:
            raise NotFound
        self.require_change(row.domain, row.name)
        serializer = ValueSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        variables.set_variable(
            actor=request.user, variable=row, value=serializer.validated_data["value"]
        )
        return self.shown(row)
