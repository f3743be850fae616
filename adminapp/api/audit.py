"""The audit and its chain, and the outbox."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ReadViewSet
from adminapp.api.pagination import Cursor
from adminapp.api.permissions import Operator
from adminapp.audit import selectors
from adminapp.core.errors import InUse
from adminapp.identity.permissions import require_operator
from adminapp.outbox import selectors as outbox
from adminapp.outbox import services as outbox_services
from adminapp.outbox.models import OutboxRow


class NewestFirst(Cursor):
    ordering = "-sequence"


class EntrySerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    action = serializers.CharField()
    domain = serializers.CharField(source="domain_name")
    object_type = serializers.CharField()
    object_id = serializers.CharField()
    object_name = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    previous_hash = serializers.CharField()
    hash = serializers.CharField()


class ChainProblemSerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    kind = serializers.ChoiceField(["changed", "removed", "reordered", "added"])
    message = serializers.CharField()


class ChainSerializer(serializers.Serializer[Any]):
    whole = serializers.BooleanField()
    problems = ChainProblemSerializer(many=True)


class EntryFilter(filters.FilterSet):
    domain = filters.CharFilter(field_name="domain_name", help_text="Name of the domain.")
    actor = filters.CharFilter(field_name="actor_name")
    action = filters.CharFilter()
    object_type = filters.CharFilter()
    object_id = filters.CharFilter()
    since = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")


class AuditViewSet(ReadViewSet):
    """Who did what; newest first."""

    serializer_class = EntrySerializer
    filterset_class = EntryFilter
    pagination_class = NewestFirst
    lookup_field = "sequence"
    lookup_value_converter = "int"

    def rows(self) -> QuerySet[Any]:
        return selectors.visible_to(self.request.user)

    @extend_schema(responses=ChainSerializer, filters=False)
    @action(detail=False, methods=["get"], permission_classes=[Operator], filter_backends=[])
    def chain(self, request: Request) -> Response:
        """Whether the chain is whole, and what was done to it if not; for operators."""
        problems = selectors.verify_chain()
        return Response(ChainSerializer({"whole": not problems, "problems": problems}).data)


class OutboxSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    topic = serializers.CharField()
    key = serializers.CharField()
    payload = serializers.JSONField()
    state = serializers.ChoiceField(OutboxRow.State.choices)
    attempts = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    available_at = serializers.DateTimeField()
    claimed_at = serializers.DateTimeField(allow_null=True)
    done_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField()


class OutboxFilter(filters.FilterSet):
    state = filters.ChoiceFilter(choices=OutboxRow.State.choices)
    topic = filters.CharFilter()


class OutboxViewSet(ReadViewSet):
    """Work that changes have left to be done; for operators."""

    serializer_class = OutboxSerializer
    filterset_class = OutboxFilter
    permission_classes = [Operator]

    def rows(self) -> QuerySet[Any]:
        return outbox.visible_to(self.request.user)

    def domain_of(self, row: OutboxRow) -> None:
        return None

    @extend_schema(request=None, responses=OutboxSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def release(self, request: Request, pk: str | None = None) -> Response:
        """Start work anew that has failed for good."""
        require_operator(request.user)
        row = self.get_object()
        if not outbox_services.release(row=row):
            raise InUse("only work that has failed can be started anew")
        return self.shown(row, status.HTTP_200_OK)
