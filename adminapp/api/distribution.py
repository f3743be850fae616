"""What agents and clients hold, revocations, and the jobs behind them."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import Count, Max, Min, Prefetch, Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.api import idempotency, revoking
from adminapp.api.activity import ReceiptCheckSerializer
from adminapp.api.base import ReadViewSet, VersionedSerializer, expected_version
from adminapp.api.filters import DomainFilter
from adminapp.api.pagination import Cursor
from adminapp.api.revoking import ImpactSerializer, RevokedSerializer, RevokeSerializer
from adminapp.api.throttling import CountedMixin
from adminapp.distribution import evidence, impact, selectors
from adminapp.distribution.models import (
    Bundle,
    Notice,
    Recipient,
    RecomputeJob,
    Revocation,
)


class RevisionSerializer(serializers.Serializer[Any]):
    """One revision of a domain, as its bundles went out."""

    domain = serializers.CharField(source="domain__name")
    revision = serializers.IntegerField()
    audiences = serializers.IntegerField(help_text="Agents and clients it was built for.")
    applied = serializers.IntegerField(help_text="Those that acknowledged having applied it.")
    rejected = serializers.IntegerField()
    built_at = serializers.DateTimeField()
    acknowledged_at = serializers.DateTimeField(allow_null=True)


class NewestRevisionFirst(Cursor):
    ordering = ("-revision", "domain__name")


class RevisionViewSet(CountedMixin, mixins.ListModelMixin, GenericViewSet):
    """Revisions that went out, newest first, counted from signed acknowledgements."""

    serializer_class = RevisionSerializer
    filterset_class = DomainFilter
    pagination_class = NewestRevisionFirst

    def get_queryset(self) -> QuerySet[Any]:
        return (
            Bundle.objects.visible_to(self.request.user)
            .order_by()
            .values("domain__name", "revision")
            .annotate(
                audiences=Count("id"),
                applied=Count("id", filter=Q(state=Bundle.State.APPLIED)),
                rejected=Count("id", filter=Q(state=Bundle.State.REJECTED)),
                built_at=Min("built_at"),
                acknowledged_at=Max("acknowledged_at"),
            )
        )


class BundleSerializer(VersionedSerializer):
    """A bundle without its sealed content."""

    domain = serializers.CharField(source="domain.name", read_only=True)
    audience = serializers.CharField(read_only=True)
    revision = serializers.IntegerField(read_only=True)
    digest = serializers.CharField(read_only=True)
    size = serializers.IntegerField(read_only=True, help_text="Bytes.")
    state = serializers.ChoiceField(Bundle.State.choices, read_only=True)
    reason = serializers.CharField(read_only=True)
    built_at = serializers.DateTimeField(read_only=True)
    sent_at = serializers.DateTimeField(read_only=True, allow_null=True)
    acknowledged_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expires_at = serializers.DateTimeField(read_only=True)


class BundleFilter(DomainFilter):
    audience = filters.CharFilter(help_text="Such as `agent:alpha`.")
    state = filters.ChoiceFilter(choices=Bundle.State.choices)
    revision = filters.NumberFilter()


class BundleViewSet(ReadViewSet):
    """Sealed messages, and how far each got."""

    serializer_class = BundleSerializer
    filterset_class = BundleFilter

    def rows(self) -> QuerySet[Any]:
        found = Bundle.objects.visible_to(self.request.user)
        return found.select_related("domain").defer("message")


class RecipientSerializer(VersionedSerializer):
    """What an audience last said, signed, that it holds."""

    domain = serializers.CharField(source="domain.name", read_only=True)
    audience = serializers.CharField(read_only=True)
    revision = serializers.IntegerField(read_only=True)
    digest = serializers.CharField(read_only=True)
    notice = serializers.IntegerField(read_only=True)
    epochs = serializers.JSONField(read_only=True)
    state = serializers.ChoiceField(Recipient.State.choices, read_only=True)
    reason = serializers.CharField(read_only=True)
    last_seen = serializers.DateTimeField(read_only=True, allow_null=True)
    leased_until = serializers.DateTimeField(read_only=True, allow_null=True)


class RecipientFilter(DomainFilter):
    audience = filters.CharFilter(help_text="Such as `agent:alpha`.")
    state = filters.ChoiceFilter(choices=Recipient.State.choices)


class RecipientViewSet(ReadViewSet):
    """Signed acknowledgements: who holds which revision."""

    serializer_class = RecipientSerializer
    filterset_class = RecipientFilter

    def rows(self) -> QuerySet[Any]:
        return Recipient.objects.visible_to(self.request.user).select_related("domain")


class RevocationEventSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    detail = serializers.JSONField()


class NoticeSerializer(serializers.Serializer[Any]):
    audience = serializers.CharField()
    number = serializers.IntegerField()
    state = serializers.ChoiceField(Notice.State.choices)
    sent_at = serializers.DateTimeField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)


class RevocationSerializer(VersionedSerializer):
    """A revocation, from the notice to the signed receipt."""

    uid = serializers.CharField(read_only=True)
    domain = serializers.CharField(source="domain.name", read_only=True)
    kind = serializers.ChoiceField(Revocation.Kind.choices, read_only=True)
    what = serializers.CharField(read_only=True, help_text="What was revoked, in words.")
    subject = serializers.JSONField(read_only=True, help_text="What was revoked, by name.")
    batch = serializers.CharField(read_only=True, help_text="Shared by what was done in one act.")
    principal = serializers.IntegerField(source="principal_id", read_only=True, allow_null=True)
    principal_name = serializers.SerializerMethodField()
    actor = serializers.CharField(source="actor.username", read_only=True, allow_null=True)
    reason = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(Revocation.State.choices, read_only=True)
    epoch_from = serializers.IntegerField(read_only=True, allow_null=True)
    epoch_to = serializers.IntegerField(read_only=True, allow_null=True)
    created = serializers.DateTimeField(read_only=True)
    completed = serializers.DateTimeField(read_only=True, allow_null=True)
    events = RevocationEventSerializer(many=True, read_only=True)
    notices = NoticeSerializer(many=True, read_only=True)
    receipt = serializers.JSONField(read_only=True, allow_null=True)

    def get_principal_name(self, row: Revocation) -> str | None:
        return row.principal.name if row.principal else None


class RevocationFilter(DomainFilter):
    state = filters.ChoiceFilter(choices=Revocation.State.choices)
    kind = filters.ChoiceFilter(choices=Revocation.Kind.choices)
    batch = filters.CharFilter()
    uid = filters.CharFilter(help_text="As receipts name it.")
    principal = filters.NumberFilter(field_name="principal_id")


class RevocationViewSet(ReadViewSet):
    """Revocations. A token needs the scope `revoke` to make one."""

    serializer_class = RevocationSerializer
    filterset_class = RevocationFilter
    write_scope = "revoke"

    def rows(self) -> QuerySet[Any]:
        notices = Notice.objects.defer("message").order_by("audience", "number")
        return selectors.revocations(self.request.user).prefetch_related(
            "events", Prefetch("notices", notices)
        )

    @extend_schema(request=RevokeSerializer, responses={202: RevocationSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End rights. The answer comes at once; Location is the place to watch.

        Of an agent that serves several domains the answer is the first domain's; the others
        share its `batch`.
        """
        return idempotency.once(request, lambda: self._create(request))

    def _create(self, request: Request) -> Response:
        serializer = RevokeSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        made = revoking.start(request.user, serializer.validated_data, expected_version=version)
        revocation = made[0]
        response = self.shown(revocation, status.HTTP_202_ACCEPTED)
        response["Location"] = self.location(revocation)
        return response

    @extend_schema(request=RevokedSerializer, responses=ImpactSerializer, filters=False)
    @action(detail=False, methods=["post"], filter_backends=[], pagination_class=None)
    def impact(self, request: Request) -> Response:
        """What a revocation would do. It is tried out and taken back: nothing is changed."""
        serializer = RevokedSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        target = revoking.target_of(request.user, serializer.validated_data)
        found = impact.foresee(actor=request.user, target=target)
        return Response(ImpactSerializer(found).data)

    @extend_schema(responses=OpenApiTypes.OBJECT, filters=False)
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def receipt(self, request: Request, pk: str | None = None) -> Response:
        """The signed receipt alone, as it is verified offline; 404 until there is one."""
        row = self.get_object()
        if row.receipt is None:
            raise NotFound("the revocation is not complete yet")
        return Response(row.receipt)

    @extend_schema(responses=ReceiptCheckSerializer, filters=False)
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def check(self, request: Request, pk: str | None = None) -> Response:
        """The revocation held against agents' decision logs."""
        return Response(ReceiptCheckSerializer(evidence.check(self.get_object())).data)


class JobSerializer(VersionedSerializer):
    """A run over all encodings of a new epoch."""

    uid = serializers.CharField(read_only=True)
    domain = serializers.CharField(source="domain.name", read_only=True)
    epoch = serializers.IntegerField(source="epoch.number", read_only=True)
    cause = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(RecomputeJob.State.choices, read_only=True)
    scope = serializers.ChoiceField(
        RecomputeJob.Scope.choices, read_only=True, help_text="The widest thing that is encoded."
    )
    stages = serializers.JSONField(read_only=True)
    rows_done = serializers.IntegerField(read_only=True)
    rows_total = serializers.IntegerField(read_only=True)
    attempts = serializers.IntegerField(read_only=True)
    started = serializers.DateTimeField(read_only=True, allow_null=True)
    finished = serializers.DateTimeField(read_only=True, allow_null=True)
    error = serializers.CharField(read_only=True)


class JobFilter(DomainFilter):
    state = filters.ChoiceFilter(choices=RecomputeJob.State.choices)


class JobViewSet(ReadViewSet):
    """Long work, and how far it is."""

    serializer_class = JobSerializer
    filterset_class = JobFilter

    def rows(self) -> QuerySet[Any]:
        found = RecomputeJob.objects.visible_to(self.request.user)
        return found.select_related("domain", "epoch")
