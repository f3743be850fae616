"""Overlays and broker agents, which all domains share."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import (
    CreateMixin,
    ReadViewSet,
    ServiceViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
)
from adminapp.api.fields import SharedField
from adminapp.api.keyholders import Distrusted
from adminapp.api.standings import Standing
from adminapp.core.errors import Invalid
from adminapp.identity import selectors, services
from adminapp.identity.models import Agent, Overlay, User


class OverlaySerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200)
    operator = serializers.CharField(max_length=200, required=False, allow_blank=True)


class OverlayViewSet(ServiceViewSet):
    """Networks of brokers; operators change them."""

    serializer_class = OverlaySerializer
    fixed = ("name",)

    def rows(self) -> QuerySet[Any]:
        return selectors.overlays(self.request.user)

    def domain_of(self, row: Overlay) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> Overlay:
        return services.create_overlay(actor=actor, **values)

    def update_with(
        self, actor: User, row: Overlay, values: dict[str, Any], version: int | None
    ) -> Overlay:
        return services.update_overlay(
            actor=actor, overlay=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Overlay, version: int | None) -> None:
        services.delete_overlay(actor=actor, overlay=row, expected_version=version)


class KeysSerializer(StrictSerializer):
    """Two public keys."""

    sealing_key = serializers.CharField(
        max_length=64, help_text="X25519, 32 bytes, base64url without padding."
    )
    verify_key = serializers.CharField(
        max_length=64, help_text="Ed25519, 32 bytes, base64url without padding."
    )


class AgentSerializer(VersionedSerializer, KeysSerializer):
    name = serializers.CharField(max_length=64)
    overlay = SharedField(Overlay)
    state = serializers.ChoiceField(Agent.State.choices, required=False)
    registered_at = serializers.DateTimeField(read_only=True)


class AgentFilter(filters.FilterSet):
    overlay = filters.CharFilter(field_name="overlay__name", help_text="Name of the overlay.")
    state = filters.ChoiceFilter(choices=Agent.State.choices)


class AgentViewSet(Standing, Distrusted, CreateMixin, UpdateMixin, ReadViewSet):
    """Broker agents; operators register and ban them."""

    serializer_class = AgentSerializer
    filterset_class = AgentFilter
    fixed = ("name", "overlay")

    def rows(self) -> QuerySet[Any]:
        return selectors.agents(self.request.user)

    def domain_of(self, row: Agent) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> Agent:
        values.pop("state", None)
        return services.register_agent(actor=actor, **values)

    def update_with(
        self, actor: User, row: Agent, values: dict[str, Any], version: int | None
    ) -> Agent:
        return services.update_agent(actor=actor, agent=row, data=values, expected_version=version)


def agents_by_name(actor: User, names: list[str], pointer: str) -> list[Agent]:
    """Agents that the caller may see, in order, each once."""
    found = {agent.name: agent for agent in selectors.agents(actor).filter(name__in=names)}
    for index, name in enumerate(names):
        if name not in found:
            raise Invalid.at(f"{pointer}/{index}", f"there is no agent `{name}`", "unknown")
    return [found[name] for name in dict.fromkeys(names)]
