"""Trust groups: which agents hold which keys."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import (
    ReadViewSet,
    ServiceViewSet,
    VersionedSerializer,
)
from adminapp.api.fields import DomainField, NamesField, SharedField
from adminapp.api.filters import DomainFilter
from adminapp.api.keyholders import EndedKeys, KeyEpochSerializer, ReasonSerializer, reason_of
from adminapp.api.platform import agents_by_name
from adminapp.catalog.models import AttributeKey
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, Overlay, User
from adminapp.trustgroups import selectors, services
from adminapp.trustgroups.models import TrustGroup


class TrustGroupSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    kind = serializers.ChoiceField(TrustGroup.Kind.choices, required=False)
    overlay = SharedField(Overlay, required=False, allow_null=True)
    members = NamesField(required=False, help_text="Agents by name.")
    keys = NamesField(required=False, help_text="Attribute keys by name.")


class MembershipPeriodSerializer(serializers.Serializer[Any]):
    """An agent was a member from `since` to `until`; null is now."""

    agent = serializers.CharField(source="agent.name")
    overlay = serializers.CharField(source="agent.overlay.name")
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True)
    why = serializers.CharField()
    ended_why = serializers.CharField()


class TrustGroupViewSet(ServiceViewSet):
    """Groups of agents that are trusted with keys."""

    serializer_class = TrustGroupSerializer
    filterset_class = DomainFilter
    fixed = ("domain", "name", "kind", "overlay")

    def rows(self) -> QuerySet[Any]:
        return selectors.trust_groups(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> TrustGroup:
        domain = values["domain"]
        self.require_change(domain)
        members = agents_by_name(actor, values.pop("members", []), "/members")
        keys = _keys(domain, values.pop("keys", []))
        return services.create_trust_group(actor=actor, members=members, keys=keys, **values)

    def update_with(
        self, actor: User, row: TrustGroup, values: dict[str, Any], version: int | None
    ) -> TrustGroup:
        members, keys = values.get("members"), values.get("keys")
        return services.update_trust_group(
            actor=actor,
            trust_group=row,
            members=None if members is None else agents_by_name(actor, members, "/members"),
            keys=None if keys is None else _keys(row.domain, keys),
            expected_version=version,
        )

    def delete_with(self, actor: User, row: TrustGroup, version: int | None) -> None:
        services.delete_trust_group(actor=actor, trust_group=row, expected_version=version)

    @extend_schema(responses=MembershipPeriodSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], filter_backends=[])
    def history(self, request: Request, **_: Any) -> Response:
        """Who was a member from when to when, and why."""
        page = self.paginate_queryset(selectors.memberships(self.get_object()))
        return self.get_paginated_response(MembershipPeriodSerializer(page, many=True).data)

    @extend_schema(request=ReasonSerializer, responses={201: KeyEpochSerializer(many=True)})
    @action(detail=True, methods=["post"], pagination_class=None, filter_backends=[])
    def rotate(self, request: Request, **_: Any) -> Response:
        """A new epoch of every key that the group gives, recorded at once."""
        group: TrustGroup = self.get_object()
        made = services.rotate_keys(
            actor=request.user,
            domain=group.domain,
            group_refs=selectors.refs_of(group),
            reason=reason_of(request),
        )
        return Response(KeyEpochSerializer(made, many=True).data, status.HTTP_201_CREATED)


class KeyEpochViewSet(EndedKeys, ReadViewSet):
    """Epochs of attribute keys and hop keys."""

    versioned_actions = ("retire",)

    serializer_class = KeyEpochSerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.key_epochs(self.request.user)


def _keys(domain: Domain, names: list[str]) -> list[AttributeKey]:
    found = selectors.attribute_keys(domain, names)
    for index, name in enumerate(names):
        if name not in found:
            raise Invalid.at(f"/keys/{index}", f"there is no attribute key `{name}`", "unknown")
    return [found[name] for name in dict.fromkeys(names)]
