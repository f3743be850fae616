"""What was used and refused, counted from agents' decision logs, and the check of receipts."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.api import idempotency
from adminapp.api.base import ReadViewSet, StrictSerializer, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.pagination import Cursor
from adminapp.api.throttling import CountedMixin
from adminapp.distribution import activity, evidence, usage
from adminapp.distribution.models import ActivityDay, ActivityRun


class ActivitySerializer(serializers.Serializer[Any]):
    """How often something was used on one day, UTC."""

    domain = serializers.CharField(source="domain.name")
    day = serializers.DateField()
    kind = serializers.ChoiceField(ActivityDay.Kind.choices)
    subject = serializers.CharField(
        help_text="`policy-<id>`, a role, `<handle>/<subscription>`, an event type, or `*`."
    )
    granted = serializers.IntegerField()
    suppressed = serializers.IntegerField(
        help_text="Let through without attributes that the client may not have."
    )
    refused = serializers.IntegerField()
    reasons = serializers.DictField(child=serializers.IntegerField())
    last = serializers.IntegerField(
        help_text="When something was let through last, milliseconds since 1970; 0 for never."
    )


class ActivityFilter(DomainFilter):
    kind = filters.ChoiceFilter(choices=ActivityDay.Kind.choices)
    subject = filters.CharFilter(help_text="Exactly this one.")
    after = filters.DateFilter(field_name="day", lookup_expr="gt", help_text="Days after this one.")


class NewestDayFirst(Cursor):
    ordering = ("-day", "id")


class ActivityViewSet(CountedMixin, mixins.ListModelMixin, GenericViewSet):
    """Use by day of policies, roles, subscriptions and event types."""

    serializer_class = ActivitySerializer
    filterset_class = ActivityFilter
    pagination_class = NewestDayFirst

    def get_queryset(self) -> QuerySet[ActivityDay]:
        return usage.days(self.request.user)


class ActivityRunSerializer(VersionedSerializer):
    """A run over a domain's decision logs."""

    uid = serializers.CharField(read_only=True)
    domain = serializers.CharField(source="domain.name", read_only=True)
    cause = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(ActivityRun.State.choices, read_only=True)
    stages = serializers.JSONField(read_only=True)
    days = serializers.JSONField(read_only=True)
    records = serializers.IntegerField(read_only=True)
    attempts = serializers.IntegerField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    finished = serializers.DateTimeField(read_only=True, allow_null=True)
    error = serializers.CharField(read_only=True)


class AskSerializer(StrictSerializer):
    """Whose decision logs to count."""

    domain = DomainField()


class ActivityRunFilter(DomainFilter):
    state = filters.ChoiceFilter(choices=ActivityRun.State.choices)


class ActivityRunViewSet(ReadViewSet):
    """Runs over decision logs, and how far they are."""

    serializer_class = ActivityRunSerializer
    filterset_class = ActivityRunFilter

    def rows(self) -> QuerySet[Any]:
        return ActivityRun.objects.visible_to(self.request.user).select_related("domain")

    @extend_schema(request=AskSerializer, responses={202: ActivityRunSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Have a domain's decision logs counted now. Location is the place to watch."""
        return idempotency.once(request, lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        serializer = AskSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        run = activity.request_run(actor=request.user, domain=serializer.validated_data["domain"])
        response = self.shown(run, status.HTTP_202_ACCEPTED)
        response["Location"] = self.location(run)
        return response


class AgentCoverageSerializer(serializers.Serializer[Any]):
    domain = serializers.CharField()
    agent = serializers.CharField()
    through = serializers.DateTimeField(allow_null=True)
    missing_seconds = serializers.FloatField()
    lost = serializers.IntegerField()
    reasons = serializers.ListField(child=serializers.ChoiceField(evidence.REASONS))


class ReceiptCheckSerializer(serializers.Serializer[Any]):
    """A revocation held against agents' decision logs."""

    verdict = serializers.ChoiceField(
        evidence.VERDICTS,
        help_text="`none`: nothing passed by what was revoked after `until`, and nothing is "
        "missing in the logs; `broken`: something did; `unknown`: nothing was found, but it cannot "
        "be told, see `reasons`; `waiting`: nothing was counted yet; `nothing`: it took away "
        "nothing that agents decide about; `off`: no logs are kept.",
    )
    reasons = serializers.ListField(
        child=serializers.ChoiceField(evidence.REASONS),
        help_text="Why it cannot be told. `unlogged`: a domain kept no logs when it was revoked; "
        "`expired`: logs of then have left; `unrecorded`: it was revoked under a release that did "
        "not keep what it took away; `more`: more ended than is held against logs; `unclear`: "
        "something passed by what ended and by other rights; of an agent `distrusted`: its word is "
        "no evidence; `silent`: nothing is known of it; `short`: nothing after `until` yet; "
        "`holes`: a time is missing; `lost`: decisions found no room on its disk.",
    )
    until = serializers.DateTimeField(
        help_text="From then on nothing may pass by what was revoked."
    )
    through = serializers.DateTimeField(
        allow_null=True, help_text="Until then something is known of every agent."
    )
    decisions = serializers.IntegerField(help_text="So many were looked at.")
    within = serializers.IntegerField(help_text="Passed by what was revoked, before `until`.")
    after = serializers.IntegerField(help_text="The same, later: there must be none.")
    unclear = serializers.IntegerField(
        help_text="Passed later, by what was revoked or by other rights: the log does not tell."
    )
    early = serializers.IntegerField(
        help_text="Passed later by other rights, under a policy that the notice put out of use."
    )
    refused = serializers.IntegerField(help_text="Refused, where something was lost.")
    contradicting = serializers.ListField(
        child=serializers.CharField(), help_text="The agents of what passed after."
    )
    agents = AgentCoverageSerializer(many=True)
    settled = serializers.DateTimeField(
        allow_null=True,
        help_text="When this was found, where the logs have left since; null is now.",
    )
