"""Webhooks: who outside is told what happens in a domain."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ServiceViewSet, VersionedSerializer, expected_version
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.pagination import Cursor
from adminapp.identity.models import User
from adminapp.webhooks import selectors, services
from adminapp.webhooks.addresses import MAX_URL
from adminapp.webhooks.events import CHOICES
from adminapp.webhooks.models import Delivery, Webhook


class WebhookSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=MAX_URL, help_text="https:// and public.")
    events = serializers.ListField(child=serializers.ChoiceField(CHOICES), min_length=1)
    enabled = serializers.BooleanField(required=False)
    failures = serializers.IntegerField(
        read_only=True, help_text="Failed attempts since the last success."
    )
    disabled_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When too many failures switched it off."
    )
    created = serializers.DateTimeField(read_only=True)
    created_by = serializers.CharField(
        source="created_by.username", read_only=True, allow_null=True, default=None
    )


class WebhookWithSecretSerializer(WebhookSerializer):
    """A webhook in the moment that its secret is made."""

    secret = serializers.CharField(read_only=True, help_text="Shown this once.")


class DeliverySerializer(serializers.Serializer[Delivery]):
    number = serializers.IntegerField()
    message_id = serializers.CharField(help_text="The same however often it is sent.")
    event = serializers.CharField()
    payload = serializers.JSONField()
    state = serializers.ChoiceField(Delivery.State.choices)
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True, help_text="Of the last answer.")
    error = serializers.CharField()
    created = serializers.DateTimeField()
    last_attempt = serializers.DateTimeField(allow_null=True)
    next_attempt = serializers.DateTimeField(allow_null=True)
    delivered = serializers.DateTimeField(allow_null=True)
    redelivers = serializers.IntegerField(allow_null=True)


class NewestDeliveryFirst(Cursor):
    ordering = "-number"


class WebhookViewSet(ServiceViewSet):
    """Addresses outside that are told of events, signed as Standard Webhooks has it."""

    serializer_class = WebhookSerializer
    filterset_class = DomainFilter
    fixed = ("domain",)
    versioned_actions = ("rotate_secret",)

    @property
    def replayable(self) -> bool:  # type: ignore[override]
        """Answers with a secret are given once."""
        return self.action not in ("create", "rotate_secret")

    def rows(self) -> QuerySet[Any]:
        return selectors.webhooks(self.request.user)

    @extend_schema(responses={status.HTTP_201_CREATED: WebhookWithSecretSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A new webhook; its secret is in this answer and in no other."""
        answer = super().create(request, *args, **kwargs)
        return self._with_secret(answer)

    def create_with(self, actor: User, values: dict[str, Any]) -> Webhook:
        values.pop("enabled", None)
        row, self._secret = services.create_webhook(actor=actor, **values)
        return row

    def update_with(
        self, actor: User, row: Webhook, values: dict[str, Any], version: int | None
    ) -> Webhook:
        return services.update_webhook(
            actor=actor, webhook=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Webhook, version: int | None) -> None:
        services.delete_webhook(actor=actor, webhook=row, expected_version=version)

    @extend_schema(request=None, responses=WebhookWithSecretSerializer, filters=False)
    @action(detail=True, methods=["post"], url_path="rotate-secret", filter_backends=[])
    def rotate_secret(self, request: Request, pk: str | None = None) -> Response:
        """A new secret, in this answer and in no other; the old one signs nothing any more."""
        row, self._secret = services.rotate_secret(
            actor=request.user,
            webhook=self.get_object(),
            expected_version=expected_version(request),
        )
        return self._with_secret(self.shown(row))

    def _with_secret(self, answer: Response) -> Response:
        answer.data["secret"] = self._secret
        answer["Cache-Control"] = "no-store"
        return answer

    @extend_schema(responses=DeliverySerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=NewestDeliveryFirst)
    def deliveries(self, request: Request, pk: str | None = None) -> Response:
        """What was sent there, the newest first, and what became of it."""
        page = self.paginate_queryset(selectors.deliveries(request.user, self.get_object()))
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)

    @extend_schema(
        request=None,
        responses={status.HTTP_201_CREATED: DeliverySerializer},
        parameters=[OpenApiParameter("number", OpenApiTypes.INT, OpenApiParameter.PATH)],
        filters=False,
    )
    @action(
        detail=True,
        methods=["post"],
        url_path="deliveries/<int:number>/redeliver",
        filter_backends=[],
        pagination_class=None,
    )
    def redeliver(self, request: Request, number: int, pk: str | None = None) -> Response:
        """Send a message once more, under the same identifier."""
        found = selectors.deliveries(request.user, self.get_object())
        delivery = found.select_related("webhook__domain").filter(number=number).first()
        if delivery is None:
            raise NotFound
        row = services.redeliver(actor=request.user, delivery=delivery)
        return Response(DeliverySerializer(row).data, status=status.HTTP_201_CREATED)
