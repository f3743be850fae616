"""What holds in a domain: its own model, and what it has from the domains above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.catalog.selectors import (
    effective_attribute_keys,
    effective_subject_attributes,
    effective_types,
)
from adminapp.identity import kinds
from adminapp.identity.lineage import Inherited, lineage
from adminapp.identity.models import Domain
from adminapp.policies.selectors import effective_policies
from adminapp.roles.selectors import effective_roles

# The kinds that sub-domains inherit, by the name of their collection.
_PARTS: dict[str, tuple[str, Callable[[Domain], list[Inherited[Any]]]]] = {
    "subject_attributes": ("subject-attribute", effective_subject_attributes),
    "attribute_keys": ("attribute-key", effective_attribute_keys),
    "event_types": ("event-type", effective_types),
    "roles": ("role", effective_roles),
    "policies": ("policy", effective_policies),
}


class InheritedSerializer(serializers.Serializer[Any]):
    """An object of the model, and where it comes from."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    domain = serializers.CharField(help_text="The domain that it stands in.")
    origin = serializers.ChoiceField(
        ["local", "overridden", "inherited"],
        help_text="The domain's own, its own in place of one from above, or one from above.",
    )
    document = serializers.DictField(help_text="The object, as files have it.")


class ModelSerializer(serializers.Serializer[Any]):
    """The effective model of a domain."""

    domain = serializers.CharField()
    revision = serializers.IntegerField()
    lineage = serializers.ListField(
        child=serializers.CharField(), help_text="The domain, its parent, and so on to the root."
    )
    subject_attributes = InheritedSerializer(many=True)
    attribute_keys = InheritedSerializer(many=True)
    event_types = InheritedSerializer(many=True)
    roles = InheritedSerializer(many=True)
    policies = InheritedSerializer(many=True)


class ModelMixin:
    """GET of the effective model."""

    @extend_schema(responses=ModelSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def model(self: Any, request: Request, pk: str | None = None) -> Response:
        """What holds in the domain, own and inherited."""
        domain = self.get_object()
        line = lineage(domain)
        names = {each.pk: each.name for each in line}
        shown: dict[str, Any] = {
            "domain": domain.name,
            "revision": domain.revision,
            "lineage": [each.name for each in line],
        }
        for part, (kind, read) in _PARTS.items():
            document = kinds.kind(kind).document
            shown[part] = [
                {
                    "id": each.row.pk,
                    "name": each.row.name,
                    "domain": names[each.row.domain_id],
                    "origin": each.origin,
                    "document": document(each.row),
                }
                for each in read(domain)
            ]
        return Response(ModelSerializer(shown).data)
