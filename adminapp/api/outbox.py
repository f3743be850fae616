"""The outbox: work that changes have left to be done."""

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
from adminapp.api.permissions import Operator
from adminapp.core.errors import InUse
from adminapp.identity.permissions import require_operator
from adminapp.outbox import selectors as outbox
from adminapp.outbox import services as outbox_services
from adminapp.outbox.models import OutboxRow


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
