"""Domains: what they are, what they use, and what holds in them."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.aliases import AliasesMixin
from adminapp.api.base import ServiceViewSet, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.api.model import ModelMixin
from adminapp.api.rotations import KeyCoverageSerializer
from adminapp.api.throttling import calls_this_minute
from adminapp.distribution.coverage import coverage
from adminapp.distribution.selectors import domain_progress
from adminapp.identity import quotas, selectors, services
from adminapp.identity.models import Domain, User
from adminapp.identity.platform import OPERATORS_FIELDS


class ProgressSerializer(serializers.Serializer[Any]):
    """How many of a domain's agents acknowledged its newest revision."""

    domain = serializers.CharField()
    revision = serializers.IntegerField()
    agents = serializers.IntegerField()
    applied = serializers.IntegerField()
    behind = serializers.ListField(
        child=serializers.CharField(), help_text="All that are not there, for whatever reason."
    )
    silent = serializers.ListField(
        child=serializers.CharField(), help_text="Those whose lease has ended."
    )
    contradicting = serializers.ListField(
        child=serializers.CharField(), help_text="Those that claim what was never built for them."
    )


def _quota(what: str, min_value: int = 0) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=min_value,
        max_value=2_147_483_647,
        help_text=f"{what}; null is the platform's default. Set by operators.",
    )


class UseSerializer(serializers.Serializer[Any]):
    used = serializers.IntegerField()
    limit = serializers.IntegerField()


class UsageSerializer(serializers.Serializer[Any]):
    """What a domain has used of its quotas."""

    objects = UseSerializer()
    principals = UseSerializer()
    requests = UseSerializer(help_text="In the minute that runs.")
    by_kind = serializers.DictField(
        child=serializers.IntegerField(), help_text="How many objects of each kind."
    )


class DomainsFilter(filters.FilterSet):
    name = filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")
    parent = filters.CharFilter(field_name="parent__name", help_text="Name of the domain above.")
    root = filters.BooleanFilter(
        field_name="parent", lookup_expr="isnull", help_text="Whether it stands below no other."
    )


class DomainSerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200)
    description = serializers.CharField(required=False, allow_blank=True)
    parent = DomainField(required=False, allow_null=True)
    lease_seconds = serializers.IntegerField(required=False, min_value=5, max_value=86_400)
    decision_days = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=3650,
        help_text="How long agents' decision logs are kept, in days; 0 keeps none.",
    )
    encoding = serializers.ChoiceField(Domain.Encoding.choices, required=False)
    approval = serializers.ChoiceField(
        Domain.Approval.choices,
        required=False,
        help_text="Which changes wait for a second person; `sensitive` are those of protected "
        "attributes.",
    )
    max_objects = _quota("Objects that it may have")
    max_principals = _quota("Principals that it may have")
    requests_per_minute = _quota("Calls of the API a minute", min_value=1)
    revision = serializers.IntegerField(
        read_only=True, help_text="Rises with every change that agents must hear of."
    )


class DomainViewSet(AliasesMixin, ModelMixin, ServiceViewSet):
    """Organisations."""

    serializer_class = DomainSerializer
    filterset_class = DomainsFilter
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
        for name in OPERATORS_FIELDS & set(values):
            if values[name] == getattr(row, name):
                del values[name]
        return services.update_domain(
            actor=actor, domain=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Domain, version: int | None) -> None:
        services.delete_domain(actor=actor, domain=row, expected_version=version)

    @extend_schema(responses=UsageSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def usage(self, request: Request, pk: str | None = None) -> Response:
        """What the domain has used of its quotas."""
        domain = self.get_object()
        found = quotas.usage(domain)
        calls = quotas.Use(calls_this_minute(domain), quotas.requests_per_minute(domain))
        shown = {
            "objects": found.objects,
            "principals": found.principals,
            "requests": calls,
            "by_kind": found.by_kind,
        }
        return Response(UsageSerializer(shown).data)

    @extend_schema(responses=ProgressSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def progress(self, request: Request, pk: str | None = None) -> Response:
        """How many agents acknowledged the newest revision, and which are behind."""
        return Response(ProgressSerializer(domain_progress(self.get_object())).data)

    @extend_schema(
        operation_id="domains_key_coverage",
        responses=KeyCoverageSerializer(many=True),
        filters=False,
    )
    @action(
        detail=True,
        methods=["get"],
        url_path="key-coverage",
        pagination_class=None,
        filter_backends=[],
    )
    def key_coverage(self, request: Request, pk: str | None = None) -> Response:
        """Which agents hold which epochs of the domain's keys, from signed acknowledgements."""
        found = coverage(self.get_object())
        return Response(KeyCoverageSerializer(found, many=True).data)
