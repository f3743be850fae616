"""Principals: who publishes and subscribes."""

from __future__ import annotations

from typing import Any, TypeAlias

import django_filters as filters
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import (
    ServiceViewSet,
    StrictSerializer,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import DomainField, SharedField
from adminapp.api.filterkeys import FilterKeyMixin
from adminapp.api.filters import DomainFilter
from adminapp.api.imports import ImportMixin
from adminapp.api.pagination import Cursor
from adminapp.api.platform import agents_by_name
from adminapp.api.sessions import RolesMixin
from adminapp.core.errors import Invalid
from adminapp.identity import selectors, services
from adminapp.identity.models import Agent, HomeAgent, Principal, User
from adminapp.identity.selectors import enrolled

Rows: TypeAlias = QuerySet[Principal]
# Only what hardly two rows share: a cursor counts its way through equal values.
ORDERINGS = ("id", "-id", "name", "-name")


class CertificateSerializer(serializers.Serializer[Principal]):
    """What the certificate says."""

    subject = serializers.CharField(source="certificate_subject")
    fingerprint = serializers.CharField(
        source="certificate_fingerprint", help_text="SHA-256 over its DER, hexadecimal."
    )
    not_before = serializers.DateTimeField(source="certificate_from")
    not_after = serializers.DateTimeField(source="certificate_until")
    pem = serializers.CharField(source="certificate")


class CredentialsSerializer(StrictSerializer):
    """Two public keys, or a certificate with or without a sealing key."""

    sealing_key = serializers.CharField(
        max_length=64, required=False, help_text="X25519, 32 bytes, base64url without padding."
    )
    verify_key = serializers.CharField(
        max_length=64, required=False, help_text="Ed25519, 32 bytes, base64url without padding."
    )
    certificate = serializers.CharField(
        max_length=65_536, required=False, help_text="X.509 in PEM, over an Ed25519 key."
    )


class EraseSerializer(StrictSerializer):
    """Why, and the principal's name once more."""

    confirm = serializers.CharField(max_length=64, help_text="The name, typed to be sure.")
    reason = serializers.CharField(
        max_length=500, help_text="Why, without naming the person: it stays on record."
    )


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
    fallbacks = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Names of the agents that serve it where its home agent is banned or does not "
        "answer, at most one on each overlay.",
    )
    broker = SharedField(
        Agent, required=False, allow_null=True, help_text="Of the kind `agent`, the agent it is."
    )
    certificate = CertificateSerializer(read_only=True, allow_null=True)
    sealing_key = serializers.CharField(read_only=True)
    verify_key = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(Principal.State.choices, read_only=True)
    revoked_at = serializers.DateTimeField(read_only=True, allow_null=True)
    erased_at = serializers.DateTimeField(read_only=True, allow_null=True)

    def to_representation(self, instance: Principal) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, each in self.fields.items():
            if name == "agents":
                shown[name] = [home.agent.name for home in instance.homes.all()]
            elif name == "fallbacks":
                seconds = [home.fallback for home in instance.homes.all()]
                shown[name] = [agent.name for agent in seconds if agent is not None]
            elif name == "certificate":
                held = instance if instance.certificate else None
                shown[name] = None if held is None else each.to_representation(held)
            else:
                value = each.get_attribute(instance)
                shown[name] = None if value is None else each.to_representation(value)
        return shown


class PrincipalFilter(DomainFilter):
    kind = filters.ChoiceFilter(choices=Principal.Kind.choices)
    state = filters.ChoiceFilter(choices=Principal.State.choices)
    name = filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")
    search = filters.CharFilter(
        method="filter_search",
        help_text="A part of the name or of the certificate's subject, a handle, or a fingerprint.",
    )
    agent = filters.CharFilter(method="filter_agent", help_text="Name of a home agent.")
    has_keys = filters.BooleanFilter(
        method="filter_keys", help_text="Whether its keys may be used now."
    )
    certificate_until = filters.IsoDateTimeFilter(
        lookup_expr="lte", help_text="Certificates that expire by this moment."
    )
    ordering = filters.ChoiceFilter(
        choices=[(name, name) for name in ORDERINGS],
        method="filter_order",
        help_text="By name or in order of creation; `-` turns it round.",
    )

    def filter_search(self, rows: Rows, _name: str, text: str) -> Rows:
        exact = Q(handle=text) | Q(certificate_fingerprint=text.lower())
        part = Q(name__icontains=text) | Q(certificate_subject__icontains=text)
        return rows.filter(exact | part)

    def filter_agent(self, rows: Rows, _name: str, agent: str) -> Rows:
        homes = HomeAgent.objects.filter(agent__name=agent)
        return rows.filter(pk__in=homes.order_by().values("principal"))

    def filter_keys(self, rows: Rows, _name: str, wanted: bool) -> Rows:
        return rows.filter(enrolled()) if wanted else rows.exclude(enrolled())

    def filter_order(self, rows: Rows, _name: str, _ordering: str) -> Rows:
        return rows  # the paginator orders, see `PrincipalCursor`


class PrincipalCursor(Cursor):
    """In the order that the list is asked for."""

    def get_ordering(self, request: Request, queryset: Rows, view: Any) -> tuple[str, ...]:
        wanted = request.query_params.get("ordering", "id")
        return (wanted,) if wanted in ORDERINGS else ("id",)


class PrincipalViewSet(ImportMixin, RolesMixin, FilterKeyMixin, ServiceViewSet):
    """Publishers, subscribers, services, persons and broker agents of a domain."""

    serializer_class = PrincipalSerializer
    filterset_class = PrincipalFilter
    pagination_class = PrincipalCursor
    fixed = ("domain", "broker")

    def rows(self) -> QuerySet[Any]:
        return selectors.principals(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Principal:
        agents = agents_by_name(actor, values.pop("homes", []), "/agents")
        fallbacks = agents_by_name(actor, values.pop("fallbacks", []), "/fallbacks")
        return services.create_principal(actor=actor, agents=agents, fallbacks=fallbacks, **values)

    def update_with(
        self, actor: User, row: Principal, values: dict[str, Any], version: int | None
    ) -> Principal:
        homes, seconds = values.pop("homes", None), values.pop("fallbacks", None)
        return services.update_principal(
            actor=actor,
            principal=row,
            data=values,
            agents=None if homes is None else agents_by_name(actor, homes, "/agents"),
            fallbacks=None if seconds is None else agents_by_name(actor, seconds, "/fallbacks"),
            expected_version=version,
        )

    def delete_with(self, actor: User, row: Principal, version: int | None) -> None:
        services.delete_principal(actor=actor, principal=row, expected_version=version)

    @extend_schema(request=CredentialsSerializer, responses=PrincipalSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def credentials(self, request: Request, pk: str | None = None) -> Response:
        """Register the public keys or the certificate of the principal's client."""
        row = self.get_object()
        serializer = CredentialsSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        services.register_credentials(
            actor=request.user,
            principal=row,
            expected_version=version,
            **serializer.validated_data,
        )
        return self.shown(row)

    @extend_schema(request=EraseSerializer, responses=PrincipalSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def erase(self, request: Request, pk: str | None = None) -> Response:
        """Take from a revoked principal everything that identifies it, for good."""
        row = self.get_object()
        serializer = EraseSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        if serializer.validated_data["confirm"] != row.name:
            raise Invalid.at("/confirm", "this is not the principal's name")
        version = expected_version(request) if "If-Match" in request.headers else None
        services.erase_principal(
            actor=request.user,
            principal=row,
            reason=serializer.validated_data["reason"],
            expected_version=version,
        )
        return self.shown(row)
