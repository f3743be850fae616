"""When keys are renewed by themselves, and which agents hold which epochs."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import (
    CreateMixin,
    DeleteMixin,
    ReadViewSet,
    UpdateMixin,
    VersionedSerializer,
)
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.distribution import rotation, services
from adminapp.distribution.models import RotationSchedule
from adminapp.identity.models import User


class RotationSerializer(VersionedSerializer):
    """How often a key is renewed."""

    domain = DomainField()
    key = serializers.CharField(
        max_length=80,
        help_text="`key:<name>`, `overlay:<name>`, `blind`, `encodings`, or `all` for every key "
        "of agents without a schedule of its own.",
    )
    every_days = serializers.IntegerField(min_value=1, max_value=3650)
    jitter_percent = serializers.IntegerField(
        min_value=0,
        max_value=50,
        required=False,
        help_text="Up to how much of the time is left away at random.",
    )
    next_at = serializers.DateTimeField(read_only=True)
    last_at = serializers.DateTimeField(read_only=True, allow_null=True)


class RotationViewSet(CreateMixin, UpdateMixin, DeleteMixin, ReadViewSet):
    """When keys are renewed by themselves."""

    serializer_class = RotationSerializer
    filterset_class = DomainFilter
    fixed = ("domain", "key")

    def rows(self) -> QuerySet[Any]:
        return rotation.schedules(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> RotationSchedule:
        return services.set_schedule(actor=actor, **values)

    def update_with(
        self, actor: User, row: RotationSchedule, values: dict[str, Any], version: int | None
    ) -> RotationSchedule:
        whole = rotation.document(row) | values
        return services.set_schedule(
            actor=actor, domain=row.domain, expected_version=version, **whole
        )

    def delete_with(self, actor: User, row: RotationSchedule, version: int | None) -> None:
        services.remove_schedule(actor=actor, schedule=row, expected_version=version)


class EpochCellSerializer(serializers.Serializer[Any]):
    epoch = serializers.IntegerField()
    state = serializers.CharField()
    held = serializers.CharField(help_text="What it is at the agent; empty where it is not there.")


class AgentEpochsSerializer(serializers.Serializer[Any]):
    agent = serializers.CharField()
    entitled = serializers.BooleanField()
    silent = serializers.BooleanField(help_text="Whether its lease has ended.")
    believed = serializers.BooleanField()
    cells = EpochCellSerializer(many=True)


class KeyCoverageSerializer(serializers.Serializer[Any]):
    """Which agents hold which epochs of one key, from what they signed."""

    key = serializers.CharField()
    epochs = serializers.ListField(child=serializers.IntegerField())
    agents = AgentEpochsSerializer(many=True)
