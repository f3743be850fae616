"""Sessions of principals, whether only they count, and which roles a principal has, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import (
    CreateMixin,
    DeleteMixin,
    Parameters,
    ReadViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
)
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.roles import principal_of
from adminapp.core.errors import Invalid, Problem
from adminapp.identity.models import Domain, Principal, User
from adminapp.roles import selectors, services
from adminapp.roles.models import RoleSession, RoleSettings
from policyengine.errors import InputError


class SessionRoleSerializer(serializers.Serializer[Any]):
    """A role that was activated in a session."""

    role = serializers.CharField(source="atom")
    rule = serializers.JSONField(help_text="The rule that granted it.")
    since = serializers.DateTimeField()
    ended = serializers.DateTimeField(allow_null=True)
    chain = serializers.ListField(
        child=serializers.CharField(), help_text="Why it ended, the first cause first."
    )


class SessionSerializer(VersionedSerializer):
    domain = serializers.CharField(source="principal.domain.name", read_only=True)
    principal = serializers.IntegerField(source="principal_id", help_text="Its identifier.")
    principal_name = serializers.CharField(source="principal.name", read_only=True)
    opened = serializers.DateTimeField(read_only=True)
    opened_by = serializers.CharField(source="opened_by.username", read_only=True, allow_null=True)
    closed = serializers.DateTimeField(read_only=True, allow_null=True)
    reason = serializers.CharField(read_only=True, help_text="Why it was closed.")
    activate = serializers.ListField(
        child=serializers.CharField(max_length=500),
        write_only=True,
        required=False,
        max_length=1000,
        help_text="Roles such as `officer(7)`, each after those that it needs; all that can be"
        " activated when a session is opened without.",
    )
    deactivate = serializers.ListField(
        child=serializers.CharField(max_length=500),
        write_only=True,
        required=False,
        max_length=1000,
        help_text="Roles to end first, when a session is changed; those that rest on them end"
        " with them.",
    )
    active = serializers.SerializerMethodField(help_text="Roles that are active now.")
    ended = serializers.SerializerMethodField(help_text="Roles that have ended, and why.")

    @extend_schema_field(SessionRoleSerializer(many=True))
    def get_active(self, row: RoleSession) -> list[dict[str, Any]]:
        held = [each for each in row.roles.all() if each.ended is None]
        return SessionRoleSerializer(held, many=True).data

    @extend_schema_field(SessionRoleSerializer(many=True))
    def get_ended(self, row: RoleSession) -> list[dict[str, Any]]:
        over = [each for each in row.roles.all() if each.ended is not None]
        return SessionRoleSerializer(over, many=True).data


class SessionFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="principal__domain__name", help_text="Name of the domain."
    )
    principal = filters.NumberFilter(field_name="principal_id")
    open = filters.BooleanFilter(
        field_name="closed", lookup_expr="isnull", help_text="Whether it is open."
    )


class SessionViewSet(CreateMixin, UpdateMixin, DeleteMixin, ReadViewSet):
    """Sessions in which principals have activated roles. PATCH activates and deactivates roles of
    one, DELETE closes it; it stays on record.

    What a role's membership rests on is watched: when it falls, the role falls in the same
    transaction, and with it those that rest on it.
    """

    serializer_class = SessionSerializer
    filterset_class = SessionFilter
    fixed = ("principal_id",)
    http_method_names = ("get", "post", "patch", "delete", "head", "options")

    def rows(self) -> QuerySet[Any]:
        return selectors.sessions(self.request.user)

    def domain_of(self, row: RoleSession) -> Domain:
        return row.principal.domain

    def create_with(self, actor: User, values: dict[str, Any]) -> RoleSession:
        principal = principal_of(actor, values["principal_id"], "/principal")
        if values.get("deactivate"):
            raise Invalid.at("/deactivate", "a new session has nothing to deactivate")
        return services.open_session(actor=actor, principal=principal, roles=values.get("activate"))

    def delete_with(self, actor: User, row: RoleSession, version: int | None) -> None:
        services.close_session(actor=actor, session=row, expected_version=version)

    def update_with(
        self, actor: User, row: RoleSession, values: dict[str, Any], version: int | None
    ) -> RoleSession:
        return services.change_session(
            actor=actor,
            session=row,
            activate=values.get("activate", ()),
            deactivate=values.get("deactivate", ()),
            expected_version=version,
        )


class RoleSettingsSerializer(VersionedSerializer):
    domain = DomainField()
    by_session = serializers.BooleanField(
        help_text="Whether only roles that are active in an open session count."
    )


class RoleSettingsViewSet(CreateMixin, UpdateMixin, ReadViewSet):
    """How roles count in a domain. One without such settings counts every role that could be
    activated.
    """

    serializer_class = RoleSettingsSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.role_settings(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> RoleSettings:
        return services.set_role_settings(actor=actor, **values)

    def update_with(
        self, actor: User, row: RoleSettings, values: dict[str, Any], version: int | None
    ) -> RoleSettings:
        return services.set_role_settings(
            actor=actor,
            domain=row.domain,
            by_session=values.get("by_session", row.by_session),
            expected_version=version,
        )


# -- the roles of a principal ----------------------------------------------------------------


class StepSerializer(serializers.Serializer[Any]):
    """A condition of a rule."""

    kind = serializers.ChoiceField(("role", "appointment", "constraint"))
    text = serializers.CharField()
    holds = serializers.BooleanField()
    why = serializers.CharField(help_text="What is missing; empty when it holds.")
    membership = serializers.BooleanField(help_text="Whether it must keep holding.")
    role = serializers.JSONField(
        required=False, allow_null=True, help_text="Of a role, why it is active or not."
    )
    issuer = serializers.CharField(required=False, allow_null=True)
    starts = serializers.DateTimeField(required=False, allow_null=True)
    ends = serializers.DateTimeField(required=False, allow_null=True)


class RoleExplanationSerializer(serializers.Serializer[Any]):
    """Why a role is active, or what is nearest missing to it."""

    role = serializers.CharField()
    active = serializers.BooleanField()
    reason = serializers.CharField()
    rule = serializers.IntegerField(allow_null=True, help_text="Which of its rules, from 0.")
    steps = StepSerializer(many=True)
    session = serializers.IntegerField(allow_null=True)


class RolesOfPrincipalSerializer(serializers.Serializer[Any]):
    roles = RoleExplanationSerializer(many=True)


class RolesQuerySerializer(StrictSerializer):
    role = serializers.CharField(required=False, max_length=4096)
    at = serializers.DateTimeField(required=False)


class RolesMixin:
    """`GET /principals/{id}/roles`."""

    @extend_schema(
        responses=RolesOfPrincipalSerializer,
        parameters=[
            OpenApiParameter("role", str, description="This role only, active or not."),
            OpenApiParameter("at", datetime, description="At this moment; now by default."),
        ],
        filters=False,
    )
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def roles(self: Any, request: Request, pk: str | None = None) -> Response:
        """The active roles of the principal, each with its chain; with `role`, why or why not."""
        principal: Principal = self.get_object()
        query = RolesQuerySerializer(data=Parameters.of(request))
        query.is_valid(raise_exception=True)
        asked, at = query.validated_data.get("role"), query.validated_data.get("at")
        if asked is None:
            found = selectors.explain_roles(principal, at)
        else:
            try:
                found = [selectors.explain_role(principal, asked, at)]
            except InputError as error:
                raise Invalid([Problem.from_input_error(error, "/role")]) from error
        return Response({"roles": [each.to_json() for each in found]})
