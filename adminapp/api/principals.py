"""Principals: who publishes and subscribes."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ServiceViewSet, VersionedSerializer, expected_version
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.platform import KeysSerializer, agents_by_name
from adminapp.identity import selectors, services
from adminapp.identity.models import Principal, User


class PrincipalSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    kind = serializers.ChoiceField(Principal.Kind.choices)
    handle = serializers.CharField(read_only=True)
    attributes = serializers.DictField(required=False, help_text="As the domain declares them.")
    agents = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Names of the home agents, at most one on each overlay.",
        source="homes",
    )
    sealing_key = serializers.CharField(read_only=True)
    verify_key = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(Principal.State.choices, read_only=True)
    revoked_at = serializers.DateTimeField(read_only=True, allow_null=True)

    def to_representation(self, instance: Principal) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, each in self.fields.items():
            if name == "agents":
                shown[name] = [home.agent.name for home in instance.homes.all()]
            else:
                value = each.get_attribute(instance)
                shown[name] = None if value is None else each.to_representation(value)
        return shown


class PrincipalFilter(DomainFilter):
    kind = filters.ChoiceFilter(choices=Principal.Kind.choices)
    state = filters.ChoiceFilter(choices=Principal.State.choices)
    name = filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")


class PrincipalViewSet(ServiceViewSet):
    """Publishers, subscribers, services and persons of a domain."""

    serializer_class = PrincipalSerializer
    filterset_class = PrincipalFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.principals(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Principal:
        agents = agents_by_name(actor, values.pop("homes", []), "/agents")
        return services.create_principal(actor=actor, agents=agents, **values)

    def update_with(
        self, actor: User, row: Principal, values: dict[str, Any], version: int | None
    ) -> Principal:
        names = values.pop("homes", None)
        return services.update_principal(
            actor=actor,
            principal=row,
            data=values,
            agents=None if names is None else agents_by_name(actor, names, "/agents"),
            expected_version=version,
        )

    def delete_with(self, actor: User, row: Principal, version: int | None) -> None:
        services.delete_principal(actor=actor, principal=row, expected_version=version)

    @extend_schema(request=KeysSerializer, responses=PrincipalSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def credentials(self, request: Request, pk: str | None = None) -> Response:
        """Register the two public keys of the principal's client."""
        row = self.get_object()
        serializer = KeysSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        services.register_credentials(
            actor=request.user,
            principal=row,
            expected_version=version,
            **serializer.validated_data,
        )
        return self.shown(row)
