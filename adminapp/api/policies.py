"""Policies, their versions, and what a change would do."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
    extend_schema_serializer,
)
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api import idempotency
from adminapp.api.access import AccessSerializer
from adminapp.api.base import (
    ServiceViewSet,
    StrictSerializer,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import DomainField, NameField
from adminapp.api.filters import DomainFilter
from adminapp.api.schema import ProblemDetailSerializer
from adminapp.identity.models import Domain, User
from adminapp.policies import selectors, services
from adminapp.policies.finding import KINDS, SEVERITIES
from adminapp.policies.findings import findings
from adminapp.policies.models import Policy
from policyengine.bundles.encoded import MAX_LIMIT_COUNT, MAX_LIMIT_SECONDS
from policyengine.events import ACTIONS

SAVING = ("create", "update", "partial_update", "restore")


@extend_schema_serializer(component_name="ValueRule")
class RuleSerializer(StrictSerializer):
    """A condition under which one attribute, or the event as a whole, may be read or written."""

    attribute = serializers.CharField(
        max_length=64, required=False, allow_null=True, help_text="null is the event as a whole."
    )
    access = serializers.ChoiceField(
        ["read", "write"],
        required=False,
        help_text="What a policy to subscribe (read) or to publish (write) is about.",
    )
    when = serializers.CharField(
        max_length=20_000,
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="An expression as policies have them; null is always.",
    )
    otherwise = serializers.ChoiceField(
        ACTIONS, required=False, help_text="What happens where the condition does not hold."
    )


class PolicyFieldsSerializer(StrictSerializer):
    """What a policy says."""

    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    action = serializers.ChoiceField(Policy.Action.choices)
    event_type = NameField(max_length=64, help_text="The policy holds for its whole sub-tree.")
    expression = serializers.CharField(max_length=20_000, trim_whitespace=False)
    attributes = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        allow_null=True,
        help_text="What may be written or read; null is everything.",
    )
    rules = serializers.ListField(
        child=RuleSerializer(), required=False, help_text="Read and write by value."
    )
    enabled = serializers.BooleanField(required=False)
    valid_from = serializers.DateTimeField(required=False, allow_null=True)
    valid_until = serializers.DateTimeField(required=False, allow_null=True)
    limit_count = serializers.IntegerField(
        min_value=1,
        max_value=MAX_LIMIT_COUNT,
        required=False,
        allow_null=True,
        help_text="Of a policy to publish: most events of each publisher in any span of "
        "`limit_seconds`; null is as many as it likes. Both or none.",
    )
    limit_seconds = serializers.IntegerField(
        min_value=1,
        max_value=MAX_LIMIT_SECONDS,
        required=False,
        allow_null=True,
        help_text="The span of time of `limit_count`, in seconds, up to 31 days.",
    )


class PolicySerializer(VersionedSerializer, PolicyFieldsSerializer):
    domain = DomainField()


class PolicyFindingSerializer(serializers.Serializer[Any]):
    """Something about a policy that its author hardly meant."""

    kind = serializers.ChoiceField(KINDS)
    severity = serializers.ChoiceField(
        SEVERITIES, help_text="`unknown`: it cannot be told within reasonable time."
    )
    policy = serializers.CharField()
    message = serializers.CharField()
    related = serializers.ListField(
        child=serializers.CharField(), help_text="Other policies that it has to do with."
    )


class SavedPolicySerializer(PolicySerializer):
    """A policy that was just saved, with what is worth a second look."""

    findings = serializers.SerializerMethodField()

    @extend_schema_field(PolicyFindingSerializer(many=True))
    def get_findings(self, row: Policy) -> Any:
        found = findings(row.domain, only=[row.name])
        return PolicyFindingSerializer(found, many=True).data


class PolicyFilter(DomainFilter):
    action = filters.ChoiceFilter(choices=Policy.Action.choices)
    event_type = filters.CharFilter(field_name="event_type__name", help_text="Name of the type.")
    enabled = filters.BooleanFilter()


class PolicyVersionSerializer(StrictSerializer):
    number = serializers.IntegerField(read_only=True)
    at = serializers.DateTimeField(read_only=True)
    actor = serializers.CharField(source="actor.username", read_only=True, allow_null=True)
    snapshot = serializers.JSONField(read_only=True)


class RestoreSerializer(StrictSerializer):
    number = serializers.IntegerField(min_value=1, help_text="The version to bring back.")


class PlanRequestSerializer(StrictSerializer):
    """A change that is not made."""

    domain = DomainField()
    policy = serializers.IntegerField(
        required=False, allow_null=True, help_text="Its identifier; null is a new policy."
    )
    data = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="The fields to be set; null deletes the policy.",
    )


class PlanSerializer(serializers.Serializer[Any]):
    gains = AccessSerializer(many=True)
    losses = AccessSerializer(many=True)
    gained = serializers.IntegerField(help_text="How many attributes, over principals and types.")
    lost = serializers.IntegerField(help_text="How many attributes, over principals and types.")
    agents = serializers.ListField(child=serializers.CharField())
    encodings = serializers.IntegerField()
    findings = PolicyFindingSerializer(many=True)
    problems = ProblemDetailSerializer(many=True)
    revision = serializers.IntegerField()


class PolicyViewSet(ServiceViewSet):
    """Who may publish and receive what."""

    kind = "policy"
    serializer_class = PolicySerializer
    filterset_class = PolicyFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.policies(self.request.user)

    def get_serializer_class(self) -> Any:
        return SavedPolicySerializer if self.action in SAVING else PolicySerializer

    def create_with(self, actor: User, values: dict[str, Any]) -> Policy:
        return services.create_policy(actor=actor, **values)

    def update_with(
        self, actor: User, row: Policy, values: dict[str, Any], version: int | None
    ) -> Policy:
        return services.update_policy(
            actor=actor, policy=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Policy, version: int | None) -> None:
        services.delete_policy(actor=actor, policy=row, expected_version=version)

    @extend_schema(
        parameters=[
            OpenApiParameter("domain", str, required=True),
            OpenApiParameter("policy", str, description="Only what concerns this policy, by name."),
        ],
        responses=PolicyFindingSerializer(many=True),
        filters=False,
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def findings(self, request: Request) -> Response:
        """What is worth a second look about the policies of a domain, warnings first."""
        name = request.query_params.get("domain", "")
        domain = Domain.objects.visible_to(request.user).filter(name=name).first()
        if domain is None:
            raise NotFound
        policy = request.query_params.get("policy")
        found = findings(domain, only=None if policy is None else [policy])
        return Response(PolicyFindingSerializer(found, many=True).data)

    @extend_schema(request=PlanRequestSerializer, responses=PlanSerializer)
    @action(detail=False, methods=["post"], filter_backends=[])
    def plan(self, request: Request) -> Response:
        """What a change would do, to whom, at which agents. Nothing is changed."""
        serializer = PlanRequestSerializer(data=request.data, context={"request": request})
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        policy = None
        if values.get("policy") is not None:
            policy = self.rows().filter(pk=values["policy"], domain=values["domain"]).first()
            if policy is None:
                raise NotFound
        plan = services.plan_policy_change(
            actor=request.user,
            domain=values["domain"],
            policy=policy,
            data=_fields(values.get("data"), new=policy is None),
        )
        return Response(PlanSerializer(plan).data)

    @extend_schema(responses=PolicyVersionSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def versions(self, request: Request, pk: str | None = None) -> Response:
        """What the policy was, newest first."""
        rows = selectors.versions(request.user, self.get_object())
        return Response(PolicyVersionSerializer(rows, many=True).data)

    @extend_schema(request=RestoreSerializer, responses=SavedPolicySerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def restore(self, request: Request, pk: str | None = None) -> Response:
        """Make an old version the newest one."""
        return idempotency.once(request, lambda: self._restore(request))

    def _restore(self, request: Request) -> Response:
        row = self.get_object()
        serializer = RestoreSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        services.restore_policy_version(
            actor=request.user,
            policy=row,
            number=serializer.validated_data["number"],
            expected_version=version,
        )
        return self.shown(row)


def _fields(data: dict[str, Any] | None, *, new: bool) -> dict[str, Any] | None:
    """The fields of a planned change, read as those of a real one."""
    if data is None:
        return None
    serializer = PolicyFieldsSerializer(data=data, partial=not new)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
