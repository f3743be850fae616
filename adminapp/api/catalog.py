"""Event types with their attributes, attribute keys, and what subjects may say of themselves."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import ServiceViewSet, StrictSerializer, VersionedSerializer
from adminapp.api.fields import DomainField, NameField, NamesField
from adminapp.api.filters import DomainFilter
from adminapp.catalog import selectors, services
from adminapp.catalog.models import Attribute, AttributeKey, EventType, SubjectAttribute
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, User

TYPE_HELP = 'Such as {"type": "int", "min": 0, "max": 1023}.'


class AttributeKeySerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)


class AttributeKeyViewSet(ServiceViewSet):
    """Names of keys that protect attributes."""

    serializer_class = AttributeKeySerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.attribute_keys(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> AttributeKey:
        return services.create_attribute_key(actor=actor, **values)

    def update_with(
        self, actor: User, row: AttributeKey, values: dict[str, Any], version: int | None
    ) -> AttributeKey:
        return services.update_attribute_key(
            actor=actor, attribute_key=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: AttributeKey, version: int | None) -> None:
        services.delete_attribute_key(actor=actor, attribute_key=row, expected_version=version)


class SubjectAttributeSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    type = serializers.JSONField(help_text=TYPE_HELP)


class SubjectAttributeViewSet(ServiceViewSet):
    """What policies may say about `subject.*`."""

    serializer_class = SubjectAttributeSerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.subject_attributes(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> SubjectAttribute:
        return services.create_subject_attribute(actor=actor, **values)

    def update_with(
        self, actor: User, row: SubjectAttribute, values: dict[str, Any], version: int | None
    ) -> SubjectAttribute:
        return services.update_subject_attribute(
            actor=actor, subject_attribute=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: SubjectAttribute, version: int | None) -> None:
        services.delete_subject_attribute(
            actor=actor, subject_attribute=row, expected_version=version
        )


class AttributeSerializer(StrictSerializer):
    """An attribute inside its event type."""

    name = serializers.CharField(max_length=64)
    type = serializers.JSONField(help_text=TYPE_HELP)
    keys = NamesField(required=False, help_text="Attribute keys by name; none is public.")
    pia_class = serializers.ChoiceField(Attribute.PiaClass.choices, required=False)
    pia_reason = serializers.CharField(required=False, allow_blank=True)


class EventTypeSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    parent = NameField(required=False, allow_null=True, max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    description = serializers.CharField(required=False, allow_blank=True)
    attributes = AttributeSerializer(many=True, required=False)


class EventTypeViewSet(ServiceViewSet):
    """Event types; `attributes` holds a type's own ones, inherited ones stand at its parents."""

    kind = "event-type"
    serializer_class = EventTypeSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.event_types(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> EventType:
        below = values.get("parent") or ""
        self.require_change(values["domain"], values["name"], below=below)
        values["parent"] = _parent(values["domain"], values.get("parent"))
        return services.create_event_type(actor=actor, **values)

    def update_with(
        self, actor: User, row: EventType, values: dict[str, Any], version: int | None
    ) -> EventType:
        attributes = values.pop("attributes", None)
        if "parent" in values:
            values["parent"] = _parent(row.domain, values["parent"])
        return services.update_event_type(
            actor=actor,
            event_type=row,
            data=values,
            attributes=attributes,
            expected_version=version,
        )

    def delete_with(self, actor: User, row: EventType, version: int | None) -> None:
        services.delete_event_type(actor=actor, event_type=row, expected_version=version)


def _parent(domain: Domain, name: str | None) -> EventType | None:
    if name is None:
        return None
    found = EventType.objects.filter(domain=domain, name=name).first()
    if found is None:
        raise Invalid.at("/parent", f"`{name}` is no event type of this domain", "unknown")
    return found
