"""Event types: attributes and their protection, versions, and what a change would come to."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api import idempotency
from adminapp.api.base import (
    ServiceViewSet,
    StrictSerializer,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.catalog import TYPE_HELP
from adminapp.api.fields import DomainField, NameField, NamesField
from adminapp.api.filters import DomainFilter
from adminapp.api.schema import PROBLEM, ProblemDetailSerializer, ProblemSerializer
from adminapp.catalog import history, mapping, preview, selectors, services
from adminapp.catalog.models import Attribute, EventType
from adminapp.core.errors import Invalid
from adminapp.identity.models import Domain, User

NOTE_HELP = "Why, kept with the version."


class ProtectionSerializer(StrictSerializer):
    """How an attribute is protected."""

    kind = serializers.ChoiceField(Attribute.Protection.choices)
    sealed = serializers.BooleanField(
        required=False, default=False, help_text="Whether the value travels encrypted by policy."
    )


class OwnProtectionSerializer(ProtectionSerializer):
    """What the attribute itself says; null leaves it to the profile, or to its keys."""

    def get_attribute(self, instance: Any) -> Any:
        if isinstance(instance, Attribute):
            return mapping.own_protection(instance)
        return super().get_attribute(instance)


class AttributeSerializer(StrictSerializer):
    """An attribute inside its event type."""

    name = serializers.CharField(max_length=64)
    type = serializers.JSONField(help_text=TYPE_HELP)
    keys = NamesField(required=False, help_text="Attribute keys by name; none is public.")
    pia_class = serializers.ChoiceField(Attribute.PiaClass.choices, required=False)
    pia_reason = serializers.CharField(required=False, allow_blank=True)
    protection = OwnProtectionSerializer(required=False, allow_null=True)


class TypeFieldsSerializer(StrictSerializer):
    """What an event type says."""

    name = serializers.CharField(
        max_length=64, help_text="A later version in force has a number: `Departure@2`."
    )
    parent = NameField(required=False, allow_null=True, max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    description = serializers.CharField(required=False, allow_blank=True)
    profile = serializers.ChoiceField(
        EventType.Profile.choices,
        required=False,
        allow_blank=True,
        help_text="Presets protections; blank leaves each attribute to its keys.",
    )
    attributes = AttributeSerializer(many=True, required=False)


class EventTypeSerializer(VersionedSerializer, TypeFieldsSerializer):
    domain = DomainField()
    retired = serializers.BooleanField(required=False, help_text="In force nowhere.")
    note = serializers.CharField(
        max_length=500, required=False, allow_blank=True, write_only=True, help_text=NOTE_HELP
    )
    as_new_version = serializers.BooleanField(
        required=False,
        write_only=True,
        help_text="Leave the type as it is and put the changed one beside it, under the next "
        "number; the answer shows the new one.",
    )


class CheckSerializer(TypeFieldsSerializer):
    """A type that is looked at and not made."""

    domain = DomainField()


class AttributeViewSerializer(serializers.Serializer[Any]):
    """An attribute as a type has it."""

    name = serializers.CharField()
    type = serializers.JSONField()
    declared_by = serializers.CharField()
    inherited = serializers.BooleanField()
    keys = serializers.ListField(child=serializers.CharField())
    pia_class = serializers.CharField()
    protection = ProtectionSerializer()
    by = serializers.CharField(help_text="attribute, profile or keys: what decided it.")
    carried = serializers.BooleanField(
        help_text="Whether agents carry it; what they do not carry can be in no event."
    )
    reasons = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField())


class PreviewSerializer(serializers.Serializer[Any]):
    problems = ProblemDetailSerializer(many=True)
    attributes = AttributeViewSerializer(many=True)


class FindingSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    event_type = serializers.CharField()
    attribute = serializers.CharField()
    message = serializers.CharField()


class TypeVersionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)
    note = serializers.CharField()
    document = serializers.JSONField()


class ChangeSerializer(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class NodeSerializer(serializers.Serializer[Any]):
    """A name in the tree of a domain's effective model."""

    name = serializers.CharField(source="type.name")
    path = serializers.CharField()
    depth = serializers.IntegerField()
    domain = serializers.CharField(source="type.domain.name")
    origin = serializers.CharField(help_text="local, overridden or inherited.")
    attributes = serializers.ListField(child=serializers.CharField())


class RetireSerializer(StrictSerializer):
    note = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text=NOTE_HELP
    )


class EventTypeViewSet(ServiceViewSet):
    """Event types; `attributes` holds a type's own ones, inherited ones stand at its parents."""

    kind = "event-type"
    serializer_class = EventTypeSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.event_types(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> EventType:
        if values.pop("as_new_version", False):
            raise Invalid.at("/as_new_version", "a new version is made by changing the old one")
        below = values.get("parent") or ""
        self.require_change(values["domain"], values["name"], below=below)
        values["parent"] = _parent(values["domain"], values.get("parent"))
        return services.create_event_type(actor=actor, **values)

    def update_with(
        self, actor: User, row: EventType, values: dict[str, Any], version: int | None
    ) -> EventType:
        own = {name: values.pop(name) for name in ("note", "as_new_version") if name in values}
        attributes = values.pop("attributes", None)
        if "parent" in values:
            values["parent"] = _parent(row.domain, values["parent"])
        return services.update_event_type(
            actor=actor,
            event_type=row,
            data=values,
            attributes=attributes,
            expected_version=version,
            **own,
        )

    def delete_with(self, actor: User, row: EventType, version: int | None) -> None:
        services.delete_event_type(actor=actor, event_type=row, expected_version=version)

    @extend_schema(request=CheckSerializer, responses=PreviewSerializer)
    @action(detail=False, methods=["post"], filter_backends=[])
    def check(self, request: Request) -> Response:
        """What the gate and everything in force would say of a type. Nothing is changed."""
        serializer = CheckSerializer(data=request.data, context={"request": request})
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        domain, parent = values.pop("domain"), values.get("parent")
        self.require_change(domain, values["name"], below=parent or "")
        if "parent" in values:
            values["parent"] = _parent(domain, parent)
        found = preview.check(actor=request.user, domain=domain, document=values)
        return Response(PreviewSerializer(found).data)

    @extend_schema(
        parameters=[OpenApiParameter("domain", str, required=True)],
        responses={200: NodeSerializer(many=True), (404, PROBLEM): ProblemSerializer},
        filters=False,
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def tree(self, request: Request) -> Response:
        """The names in force in a domain, each below its parent; a policy holds for a sub-tree."""
        nodes = selectors.tree(_domain(request))
        paths = selectors.paths(node.type for node in nodes)
        rows = [
            {
                "type": node.type,
                "path": paths[node.type.name],
                "depth": node.depth,
                "origin": node.origin,
                "attributes": [each.attribute.name for each in node.attributes],
            }
            for node in nodes
        ]
        return Response(NodeSerializer(rows, many=True).data)

    @extend_schema(
        parameters=[OpenApiParameter("domain", str, required=True)],
        responses={200: FindingSerializer(many=True), (404, PROBLEM): ProblemSerializer},
        filters=False,
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def findings(self, request: Request) -> Response:
        """Risks whose acceptance ends, attributes that the gate refuses, and what to know."""
        return Response(FindingSerializer(preview.findings(_domain(request)), many=True).data)

    @extend_schema(responses=AttributeViewSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def attributes(self, request: Request, pk: str | None = None) -> Response:
        """Own and inherited attributes, each with the protection in force."""
        found = preview.attributes(self.get_object())
        return Response(AttributeViewSerializer(found, many=True).data)

    @extend_schema(responses=TypeVersionSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def versions(self, request: Request, pk: str | None = None) -> Response:
        """What the type was, newest first."""
        rows = selectors.type_versions(request.user, self.get_object())
        return Response(TypeVersionSerializer(rows, many=True).data)

    @extend_schema(
        parameters=[
            OpenApiParameter("from", int, required=True, description="Number of a version."),
            OpenApiParameter("to", int, required=True, description="Number of a version."),
        ],
        responses=ChangeSerializer(many=True),
        filters=False,
    )
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def diff(self, request: Request, pk: str | None = None) -> Response:
        """In what two versions differ."""
        older, newer = _number(request, "from"), _number(request, "to")
        found = history.difference(self.get_object(), older, newer)
        return Response(ChangeSerializer(found, many=True).data)

    @extend_schema(request=RetireSerializer, responses=EventTypeSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def retire(self, request: Request, pk: str | None = None) -> Response:
        """Take a type out of force; its name stays taken."""
        return idempotency.once(request, lambda: self._retire(request))

    def _retire(self, request: Request) -> Response:
        row = self.get_object()
        serializer = RetireSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        services.retire_event_type(
            actor=request.user,
            event_type=row,
            expected_version=version,
            note=serializer.validated_data.get("note", ""),
        )
        return self.shown(row)


def _parent(domain: Domain, name: str | None) -> EventType | None:
    if name is None:
        return None
    found = selectors.find_type(domain, name)
    if found is None:
        raise Invalid.at("/parent", f"`{name}` is no event type of this domain", "unknown")
    return found


def _domain(request: Request) -> Domain:
    found = Domain.objects.visible_to(request.user).filter(
        name=request.query_params.get("domain", "")
    )
    domain = found.first()
    if domain is None:
        raise NotFound
    return domain


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid.at(f"/{name}", "this is the number of a version", "type")
    return int(text)
