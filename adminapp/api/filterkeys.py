"""Keys for filters: asked for by the client's manager, and readable by that client alone."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import StrictSerializer
from adminapp.distribution import filterkeys
from policyengine.bundles import MOST_ATTRIBUTES
from policyengine.primitives.canonical import b64


class FilterSerializer(StrictSerializer):
    """A filter, without the values that it tests for: those are the client's own affair."""

    type = serializers.CharField(max_length=64, help_text="Name of the event type.")
    attributes = serializers.ListField(
        child=serializers.CharField(max_length=64),
        min_length=1,
        max_length=MOST_ATTRIBUTES,
        help_text="Names of the attributes that the filter tests.",
    )


class FilterDecisionSerializer(serializers.Serializer[Any]):
    """Whether policies let the client receive the type, or read one attribute, and why."""

    attribute = serializers.CharField(
        source="question.attribute", allow_null=True, help_text="Null is the event as such."
    )
    allowed = serializers.BooleanField()
    summary = serializers.CharField()


class FilterKeySerializer(serializers.Serializer[Any]):
    """A key, and the place that it is sealed for."""

    domain = serializers.CharField()
    epoch = serializers.IntegerField()
    type = serializers.CharField()
    audience = serializers.CharField(help_text="The client, whose sealing key alone opens it.")
    sealed = serializers.SerializerMethodField(help_text="base64url without padding.")

    def get_sealed(self, key: filterkeys.FilterKey) -> str:
        return b64(key.sealed)


class FilterAnswerSerializer(serializers.Serializer[filterkeys.FilterAnswer]):
    """A key, or why there is none."""

    granted = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why there is no key; empty where there is one.")
    decisions = FilterDecisionSerializer(many=True)
    key = FilterKeySerializer(allow_null=True)


class ReadingSerializer(StrictSerializer):
    """How a client gets the keys of hidden attributes."""

    by_filters = serializers.BooleanField(
        help_text="Whether it asks for the key of each filter, and its bundle brings none."
    )


class FilterKeyMixin:
    """What can be asked of a principal's filters."""

    @extend_schema(methods=["GET"], responses=ReadingSerializer)
    @extend_schema(methods=["POST"], request=ReadingSerializer, responses=ReadingSerializer)
    @action(detail=True, methods=["get", "post"], filter_backends=[])
    def reading(self: Any, request: Request, pk: str | None = None) -> Response:
        """Whether the principal's client reads by keys for its filters alone."""
        principal = self.get_object()
        if request.method == "POST":
            serializer = ReadingSerializer(data=request.data)
            serializer.is_valid(raise_exception=True)
            on = serializer.validated_data["by_filters"]
            filterkeys.read_by_filters(actor=request.user, principal=principal, on=on)
        found = {"by_filters": filterkeys.reads_by_filters(principal)}
        return Response(ReadingSerializer(found).data)

    @extend_schema(request=FilterSerializer, responses=FilterAnswerSerializer)
    @action(detail=True, methods=["post"], url_path="filter-key", filter_backends=[])
    def filter_key(self: Any, request: Request, pk: str | None = None) -> Response:
        """A key that reads what a filter tests, if policies let it; the audit keeps the answer."""
        principal = self.get_object()
        serializer = FilterSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        answer = filterkeys.filter_key(
            actor=request.user,
            principal=principal,
            event_type=serializer.validated_data["type"],
            attributes=serializer.validated_data["attributes"],
        )
        return Response(FilterAnswerSerializer(answer).data)
