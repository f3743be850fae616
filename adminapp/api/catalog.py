"""Attribute keys, and what subjects may say of themselves."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from adminapp.api.base import ServiceViewSet, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.keyholders import HeldKeys
from adminapp.catalog import selectors, services
from adminapp.catalog.models import AttributeKey, SubjectAttribute
from adminapp.identity.models import User

TYPE_HELP = 'Such as {"type": "int", "min": 0, "max": 1023}.'


class AttributeKeySerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)


class AttributeKeyViewSet(HeldKeys, ServiceViewSet):
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
