"""Classes of attributes, and which parts of an event travel where."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from adminapp.api import idempotency
from adminapp.api.base import (
    ReadViewSet,
    ServiceViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
)
from adminapp.api.event_types import ProtectionSerializer
from adminapp.api.fields import DomainField
from adminapp.api.throttling import CountedMixin
from adminapp.catalog import profiles
from adminapp.catalog import selectors as catalog
from adminapp.catalog import services as accept
from adminapp.catalog.models import Attribute, EventType, RiskAcceptance
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


class ClassSerializer(StrictSerializer):
    """The class of one attribute."""

    event_type = serializers.CharField(max_length=64)
    attribute = serializers.CharField(max_length=64)
    pia_class = serializers.ChoiceField(Attribute.PiaClass.choices)
    reason = serializers.CharField(required=False, allow_blank=True)


class BulkSerializer(StrictSerializer):
    """Classes of many attributes of one domain; all are accepted or none."""

    domain = DomainField()
    items = ClassSerializer(many=True, min_length=1, max_length=1000)


class BulkResultSerializer(serializers.Serializer[Any]):
    items = ClassificationSerializer(many=True)


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

    @extend_schema(request=BulkSerializer, responses=BulkResultSerializer)
    @action(detail=False, methods=["post"], filter_backends=[])
    def bulk(self, request: Request) -> Response:
        """Classify many attributes at once."""
        return idempotency.once(request, lambda: self._bulk(request))

    def _bulk(self, request: Request) -> Response:
        serializer = BulkSerializer(data=request.data, context={"request": request})
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        done = services.classify_attributes(
            actor=request.user,
            domain=values["domain"],
            classes=[services.Class(**item) for item in values["items"]],
        )
        rows = {row.pk: row for row in self.rows().filter(pk__in=[row.pk for row in done])}
        found = {"items": [rows[row.pk] for row in done]}
        return Response(BulkResultSerializer(found, context={"request": request}).data)


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


def _check_place(row: SplitPlan | RiskAcceptance, place: dict[str, Any]) -> None:
    if place.get("domain", row.event_type.domain) != row.event_type.domain:
        raise Invalid.at("/domain", "`domain` cannot be changed")
    if place.get("name", row.event_type.name) != row.event_type.name:
        raise Invalid.at("/event_type", "`event_type` cannot be changed")


def _event_type(domain: Domain, name: str) -> EventType:
    found = EventType.objects.filter(domain=domain, name=name).first()
    if found is None:
        raise Invalid.at("/event_type", f"`{name}` is no event type of this domain", "unknown")
    return found


class RiskAcceptanceSerializer(VersionedSerializer):
    domain = DomainField(source="event_type.domain")
    event_type = serializers.CharField(source="event_type.name", max_length=64)
    attribute = serializers.CharField(max_length=64)
    pia_class = serializers.ChoiceField(Attribute.PiaClass.choices, required=False)
    protection = serializers.ChoiceField(Attribute.Protection.choices, required=False)
    justification = serializers.CharField(max_length=10_000)
    accepted_by = serializers.CharField(
        max_length=200, required=False, help_text="Who takes the risk; the caller by default."
    )
    until = serializers.DateTimeField(help_text="At most a year from now.")


class RiskAcceptanceViewSet(ServiceViewSet):
    """Risks that somebody accepted in writing, for a while: the only way round the gate."""

    serializer_class = RiskAcceptanceSerializer
    filterset_class = TypeScopedFilter
    fixed = ("attribute",)

    def rows(self) -> QuerySet[Any]:
        return catalog.risk_acceptances(self.request.user)

    def domain_of(self, row: RiskAcceptance) -> Domain:
        return row.event_type.domain

    def create_with(self, actor: User, values: dict[str, Any]) -> RiskAcceptance:
        place = values.pop("event_type")
        self.require_change(place["domain"])
        event_type = _event_type(place["domain"], place["name"])
        if event_type.risk_acceptances.filter(attribute=values["attribute"]).exists():
            raise InUse("a risk is accepted for this attribute; change that acceptance")
        return accept.accept_risk(actor=actor, event_type=event_type, **values)

    def update_with(
        self, actor: User, row: RiskAcceptance, values: dict[str, Any], version: int | None
    ) -> RiskAcceptance:
        _check_place(row, values.pop("event_type", {}))
        return accept.update_acceptance(
            actor=actor, risk_acceptance=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: RiskAcceptance, version: int | None) -> None:
        accept.withdraw_acceptance(actor=actor, risk_acceptance=row, expected_version=version)


class PresetSerializer(serializers.Serializer[Any]):
    pia_class = serializers.CharField()
    keyed = serializers.BooleanField(help_text="Whether the attribute names keys.")
    protection = ProtectionSerializer()


class ProfileSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    presets = PresetSerializer(many=True)


class ProfileViewSet(CountedMixin, ViewSet):
    """Profiles, and the protections that they preset for a text attribute of each class."""

    @extend_schema(responses=ProfileSerializer(many=True))
    def list(self, request: Request) -> Response:
        """Every profile."""
        return Response(ProfileSerializer(profiles.profiles(), many=True).data)
