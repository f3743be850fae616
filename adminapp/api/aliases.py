"""Aliases of attributes in encodings: which there are, and another one for one that is burnt."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api import idempotency
from adminapp.api.base import StrictSerializer
from adminapp.api.distribution import JobSerializer
from adminapp.core.errors import Invalid
from adminapp.distribution import aliases, services


class AliasSerializer(serializers.Serializer[Any]):
    """An attribute that policies test subjects for, so that it stands in agents' encodings."""

    attribute = serializers.CharField(help_text="Without `subject.`; `role.nurse` for a role.")
    policies = serializers.ListField(child=serializers.CharField())
    burnt = serializers.IntegerField(
        help_text="How often it was given another alias since the encoding epoch began."
    )


class AliasAtAgentSerializer(serializers.Serializer[Any]):
    agent = serializers.CharField()
    clients = serializers.IntegerField(help_text="Encodings of clients that hold it.")
    rules = serializers.IntegerField(help_text="Encodings of rules that hold it.")


class AliasImpactSerializer(serializers.Serializer[Any]):
    """What another alias would touch. Nobody loses or gains a right; nothing is changed yet."""

    attribute = serializers.CharField()
    policies = serializers.ListField(child=serializers.CharField())
    agents = AliasAtAgentSerializer(many=True)
    encodings = serializers.IntegerField(help_text="Computed anew.")
    kept = serializers.IntegerField(help_text="Encodings that stay as they are.")
    epoch = serializers.IntegerField(help_text="The encoding epoch, which stays in force.")
    burnt = serializers.IntegerField()


class BurnSerializer(StrictSerializer):
    attribute = serializers.CharField(
        max_length=200, help_text="With or without `subject.`; `role.nurse` for a role."
    )
    reason = serializers.CharField(max_length=500, help_text="For the audit.")


class AliasesMixin:
    """What can be asked and done of the aliases of a domain."""

    @extend_schema(responses=AliasSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def aliases(self: Any, request: Request, **_: Any) -> Response:
        """The attributes that stand in agents' encodings."""
        return Response(AliasSerializer(aliases.aliases(self.get_object()), many=True).data)

    @extend_schema(
        responses=AliasImpactSerializer,
        filters=False,
        parameters=[OpenApiParameter("attribute", str, required=True)],
    )
    @action(
        detail=True,
        methods=["get"],
        url_path="alias-impact",
        pagination_class=None,
        filter_backends=[],
    )
    def alias_impact(self: Any, request: Request, **_: Any) -> Response:
        """What another alias for an attribute would touch."""
        domain, attribute = self.get_object(), request.query_params.get("attribute", "")
        if not attribute:
            raise Invalid.at("/attribute", "say which attribute", "missing")
        found = aliases.foresee(actor=request.user, domain=domain, attribute=attribute)
        return Response(AliasImpactSerializer(found).data)

    @extend_schema(request=BurnSerializer, responses={202: JobSerializer})
    @action(detail=True, methods=["post"], url_path="burn-alias", filter_backends=[])
    def burn_alias(self: Any, request: Request, **_: Any) -> Response:
        """Give a burnt attribute another alias everywhere. Location is the run to watch."""
        return idempotency.once(request, lambda: self._burn_alias(request))

    def _burn_alias(self: Any, request: Request) -> Response:
        domain = self.get_object()
        serializer = BurnSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        job = services.burn_alias(actor=request.user, domain=domain, **serializer.validated_data)
        response = Response(JobSerializer(job).data, status.HTTP_202_ACCEPTED)
        response["Location"] = reverse("api:jobs-detail", args=[job.pk])
        return response
