"""Classes of attributes, and which parts of an event travel where."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import (
    ReadViewSet,
    ServiceViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
)
from adminapp.api.fields import DomainField
from adminapp.catalog.models import Attribute, EventType
from adminapp.core.errors import InUse, Invalid
from adminapp.identity.models import Domain, User
from adminapp.privacy import selectors, services
from adminapp.privacy.models import SplitPlan


class TypeScopedFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="event_type__domain__name", help_text="Name of the domain."
    )
    event_type = filters.CharFilter(field_name="event_type__name", help_text="Name of the type.")


class ClassificationSerializer(VersionedSerializer):
    domain = serializers.CharField(source="event_type.domain.name", read_only=True)
    event_type = serializers.CharField(source="event_type.name", read_only=True)
    attribute = serializers.CharField(source="name", read_only=True)
    pia_class = serializers.ChoiceField(Attribute.PiaClass.choices)
    reason = serializers.CharField(source="pia_reason", required=False, allow_blank=True)


class ClassificationFilter(TypeScopedFilter):
    pia_class = filters.ChoiceFilter(choices=Attribute.PiaClass.choices)


class ClassificationViewSet(UpdateMixin, ReadViewSet):
    """How identifying each attribute is, and why somebody thinks so."""

    serializer_class = ClassificationSerializer
    filterset_class = ClassificationFilter
    fixed = ()

    def rows(self) -> QuerySet[Any]:
        return selectors.classifications(self.request.user)

    def domain_of(self, row: Attribute) -> Domain:
        return row.event_type.domain

    def update_with(
        self, actor: User, row: Attribute, values: dict[str, Any], version: int | None
    ) -> Attribute:
        return services.classify_attribute(
            actor=actor,
            attribute=row,
            pia_class=values.get("pia_class", row.pia_class),
            reason=values.get("pia_reason", row.pia_reason),
            expected_version=version,
        )


class GroupSerializer(StrictSerializer):
    """Attributes that travel together on one overlay."""

    overlay = serializers.CharField(max_length=64)
    attributes = serializers.ListField(child=serializers.CharField(max_length=64))


class SplitPlanSerializer(VersionedSerializer):
    domain = DomainField(source="event_type.domain")
    event_type = serializers.CharField(source="event_type.name", max_length=64)
    groups = GroupSerializer(many=True)
    active = serializers.BooleanField(required=False)


class SplitPlanViewSet(ServiceViewSet):
    """Splits of events over overlays."""

    serializer_class = SplitPlanSerializer
    filterset_class = TypeScopedFilter
    fixed = ()

    def rows(self) -> QuerySet[Any]:
        return selectors.split_plans(self.request.user)

    def domain_of(self, row: SplitPlan) -> Domain:
        return row.event_type.domain

    def create_with(self, actor: User, values: dict[str, Any]) -> SplitPlan:
        place = values.pop("event_type")
        self.require_change(place["domain"])
        event_type = _event_type(place["domain"], place["name"])
        if SplitPlan.objects.filter(event_type=event_type).exists():
            raise InUse("this event type has a split; change that one")
        return services.set_split(
            actor=actor,
            event_type=event_type,
            groups=_groups(values["groups"]),
            active=values.get("active", True),
        )

    def update_with(
        self, actor: User, row: SplitPlan, values: dict[str, Any], version: int | None
    ) -> SplitPlan:
        _check_place(row, values.get("event_type", {}))
        groups = values.get("groups")
        return services.set_split(
            actor=actor,
            event_type=row.event_type,
            groups=row.groups if groups is None else _groups(groups),
            active=values.get("active", row.active),
            expected_version=version,
        )

    def delete_with(self, actor: User, row: SplitPlan, version: int | None) -> None:
        services.remove_split(actor=actor, split_plan=row, expected_version=version)


def _groups(values: list[Any]) -> list[dict[str, Any]]:
    return [dict(group) for group in values]


def _check_place(row: SplitPlan, place: dict[str, Any]) -> None:
    if place.get("domain", row.event_type.domain) != row.event_type.domain:
        raise Invalid.at("/domain", "`domain` cannot be changed")
    if place.get("name", row.event_type.name) != row.event_type.name:
        raise Invalid.at("/event_type", "`event_type` cannot be changed")


def _event_type(domain: Domain, name: str) -> EventType:
    found = EventType.objects.filter(domain=domain, name=name).first()
    if found is None:
        raise Invalid.at("/event_type", f"`{name}` is no event type of this domain", "unknown")
    return found
