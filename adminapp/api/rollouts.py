"""Policies on their way through a domain's stages, and the plans that say how they go."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import (
    CreateMixin,
    ReadViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.keyholders import reason_of
from adminapp.distribution import rolloutplans, services, standings
from adminapp.distribution.models import PolicyRollout, RolloutPlan
from adminapp.identity.models import User


class StageSerializer(StrictSerializer):
    """One stage of a plan."""

    agents = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, help_text="Names."
    )
    share = serializers.IntegerField(
        min_value=0, max_value=100, required=False, help_text="Percent that it is filled up to."
    )
    wait_seconds = serializers.IntegerField(
        min_value=0, max_value=rolloutplans.MAX_WAIT, required=False
    )


class RolloutPlanSerializer(VersionedSerializer):
    """How changed policies of a domain reach its agents."""

    domain = DomainField()
    enabled = serializers.BooleanField(required=False)
    stages = StageSerializer(many=True, required=False)
    silence_seconds = serializers.IntegerField(
        min_value=10,
        max_value=86_400,
        required=False,
        help_text="How long an agent may take to acknowledge before the rollout stops.",
    )


class RolloutPlanViewSet(CreateMixin, UpdateMixin, ReadViewSet):
    """How changed policies reach the agents of a domain; without a plan all get them at once."""

    serializer_class = RolloutPlanSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return rolloutplans.plans(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> RolloutPlan:
        return services.set_plan(actor=actor, **values)

    def update_with(
        self, actor: User, row: RolloutPlan, values: dict[str, Any], version: int | None
    ) -> RolloutPlan:
        whole = rolloutplans.document(row) | values
        return services.set_plan(actor=actor, domain=row.domain, expected_version=version, **whole)


class StandingSerializer(serializers.Serializer[Any]):
    """One agent of a rollout, as it said, signed."""

    agent = serializers.CharField()
    stage = serializers.IntegerField()
    state = serializers.ChoiceField(standings.STATES)
    revision = serializers.IntegerField()
    reason = serializers.CharField()


class RolloutSerializer(VersionedSerializer):
    """Changed policies on their way."""

    domain = serializers.CharField(source="domain.name", read_only=True)
    state = serializers.ChoiceField(PolicyRollout.State.choices, read_only=True)
    revision = serializers.IntegerField(read_only=True)
    stage = serializers.IntegerField(read_only=True, help_text="Counted from 0.")
    stages = serializers.JSONField(read_only=True)
    stage_revision = serializers.IntegerField(read_only=True)
    stage_started = serializers.DateTimeField(read_only=True)
    stage_applied = serializers.DateTimeField(read_only=True, allow_null=True)
    skipped = serializers.ListField(child=serializers.CharField(), read_only=True)
    reason = serializers.CharField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    ended = serializers.DateTimeField(read_only=True, allow_null=True)
    actor = serializers.CharField(source="actor.username", read_only=True, allow_null=True)


class RolloutFilter(DomainFilter):
    state = filters.ChoiceFilter(choices=PolicyRollout.State.choices)


class RolloutViewSet(ReadViewSet):
    """Changed policies on their way through the stages, the newest first."""

    serializer_class = RolloutSerializer
    filterset_class = RolloutFilter
    versioned_actions = ("go_on", "abort")

    def rows(self) -> QuerySet[Any]:
        return rolloutplans.rollouts(self.request.user)

    @extend_schema(responses=StandingSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def agents(self, request: Request, pk: str | None = None) -> Response:
        """How far each agent is, told from signed acknowledgements alone."""
        found = standings.standings(self.get_object())
        return Response(StandingSerializer(found, many=True).data)

    @extend_schema(request=None, responses=RolloutSerializer, operation_id="rollouts_continue")
    @action(detail=True, methods=["post"], url_path="continue", filter_backends=[])
    def go_on(self, request: Request, pk: str | None = None) -> Response:
        """Go on after a stop, without the agents that made it stop."""
        row = services.continue_rollout(
            actor=request.user,
            rollout=self.get_object(),
            expected_version=expected_version(request),
        )
        return self.shown(row)

    @extend_schema(responses=RolloutSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def abort(self, request: Request, pk: str | None = None) -> Response:
        """Bring what was in force before to all agents, as a new revision."""
        row = services.abort_rollout(
            actor=request.user,
            rollout=self.get_object(),
            reason=reason_of(request),
            expected_version=expected_version(request),
        )
        return self.shown(row)
