"""Domains: what they are, what they use, and what holds in them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ServiceViewSet, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.distribution.selectors import domain_progress
from adminapp.identity import selectors, services
from adminapp.identity.models import Domain, User
from adminapp.policies.access import Access
from adminapp.policies.models import Policy
from adminapp.policies.selectors import effective_access


class AccessSerializer(serializers.Serializer[Access]):
    """One thing that a principal may do."""

    principal = serializers.CharField()
    handle = serializers.CharField()
    action = serializers.ChoiceField(Policy.Action.choices)
    type = serializers.CharField()
    attributes = serializers.ListField(child=serializers.CharField())
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")
    policy = serializers.CharField()


class ProgressSerializer(serializers.Serializer[Any]):
    """How many of a domain's agents acknowledged its newest revision."""

    domain = serializers.CharField()
    revision = serializers.IntegerField()
    agents = serializers.IntegerField()
    applied = serializers.IntegerField()
    behind = serializers.ListField(child=serializers.CharField())


class DomainSerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200)
    description = serializers.CharField(required=False, allow_blank=True)
    parent = DomainField(required=False, allow_null=True)
    lease_seconds = serializers.IntegerField(required=False, min_value=5, max_value=86_400)
    encoding = serializers.ChoiceField(Domain.Encoding.choices, required=False)
    revision = serializers.IntegerField(
        read_only=True, help_text="Rises with every change that agents must hear of."
    )


class DomainViewSet(ServiceViewSet):
    """Organisations."""

    serializer_class = DomainSerializer
    fixed = ("name",)

    def rows(self) -> QuerySet[Any]:
        return selectors.domains(self.request.user)

    def domain_of(self, row: Domain) -> Domain:
        return row

    def create_with(self, actor: User, values: dict[str, Any]) -> Domain:
        return services.create_domain(actor=actor, **values)

    def update_with(
        self, actor: User, row: Domain, values: dict[str, Any], version: int | None
    ) -> Domain:
        if values.get("parent", row.parent) == row.parent:
            values.pop("parent", None)
        return services.update_domain(
            actor=actor, domain=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Domain, version: int | None) -> None:
        services.delete_domain(actor=actor, domain=row, expected_version=version)

    @extend_schema(responses=AccessSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def access(self, request: Request, pk: str | None = None) -> Response:
        """Who may publish and receive what now, attribute by attribute."""
        lines = effective_access(self.get_object())
        return Response(AccessSerializer(lines, many=True).data)

    @extend_schema(responses=ProgressSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def progress(self, request: Request, pk: str | None = None) -> Response:
        """How many agents acknowledged the newest revision, and which are behind."""
        return Response(ProgressSerializer(domain_progress(self.get_object())).data)
