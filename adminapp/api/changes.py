"""Change sets: drafts, plans, approvals, urgent grants, restores; and what was announced."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import (
    CreateMixin,
    ReadViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import DomainField
from adminapp.changes import selectors, services
from adminapp.changes.models import Announcement, ChangeSet, Decision
from adminapp.core.errors import Forbidden
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User


class OperationSerializer(StrictSerializer):
    """One thing to be done to one object."""

    op = serializers.ChoiceField(["put", "delete"])
    kind = serializers.CharField(help_text="What sort of object, such as `policy`.")
    key = serializers.CharField(required=False, help_text="Its natural key within the domain.")
    document = serializers.DictField(
        required=False, allow_null=True, help_text="What it is to be; absent for a deletion."
    )


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    user = serializers.CharField(source="user.username", allow_null=True)

    class Meta:
        model = Decision
        fields = ("user", "verdict", "comment", "at", "base_revision")


class ChangeSetSerializer(VersionedSerializer):
    """A change of one domain as a whole."""

    domain = DomainField(allow_null=True)
    message = serializers.CharField(max_length=500, required=False, allow_blank=True)
    operations = OperationSerializer(many=True)
    source = serializers.CharField(read_only=True)
    author = serializers.CharField(source="author.username", read_only=True, allow_null=True)
    state = serializers.ChoiceField(ChangeSet.State.choices, read_only=True)
    plan = serializers.SerializerMethodField(help_text="What it would do, when it was planned.")
    base_revision = serializers.IntegerField(
        read_only=True, help_text="The domain's revision that the plan was made against."
    )
    revision = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The domain's revision once it was applied."
    )
    restores = serializers.IntegerField(read_only=True, allow_null=True)
    created = serializers.DateTimeField(read_only=True)
    submitted = serializers.DateTimeField(read_only=True, allow_null=True)
    applied = serializers.DateTimeField(read_only=True, allow_null=True)
    review = serializers.ChoiceField(
        ChangeSet.Review.choices, read_only=True, help_text="Of an urgent grant."
    )
    urgent_until = serializers.DateTimeField(read_only=True, allow_null=True)
    decisions = DecisionSerializer(many=True, read_only=True)

    @extend_schema_field({"type": ["object", "null"], "additionalProperties": True})
    def get_plan(self, row: ChangeSet) -> Any:
        return row.plan


class CommentSerializer(StrictSerializer):
    comment = serializers.CharField(required=False, allow_blank=True, max_length=2000)


class UrgentSerializer(StrictSerializer):
    """A grant that cannot wait."""

    domain = DomainField()
    message = serializers.CharField(max_length=500, help_text="Why; every manager is told.")
    minutes = serializers.IntegerField(min_value=1, max_value=1440)
    operations = OperationSerializer(many=True, help_text="New policies and appointments.")


class RestoreRevisionSerializer(StrictSerializer):
    domain = DomainField()
    revision = serializers.IntegerField(min_value=0, max_value=2**62)


class ChangeSetFilter(filters.FilterSet):
    domain = filters.CharFilter(field_name="domain__name", help_text="Name of the domain.")
    state = filters.ChoiceFilter(choices=ChangeSet.State.choices)
    review = filters.ChoiceFilter(choices=ChangeSet.Review.choices)
    author = filters.CharFilter(field_name="author__username")


class ChangeSetViewSet(CreateMixin, UpdateMixin, ReadViewSet):
    """Changes: drafted, planned, approved where the domain asks for it, applied as a revision."""

    serializer_class = ChangeSetSerializer
    filterset_class = ChangeSetFilter
    fixed = ("domain",)
    versioned_actions = ("plan", "submit", "approve", "reject", "undo", "withdraw")

    def rows(self) -> QuerySet[Any]:
        return selectors.change_sets(self.request.user)

    def require_change(self, domain: Domain | None, key: str = "", *, below: str = "") -> None:
        """Delegates draft and apply what is theirs; the services say what that is."""
        if domain is None:
            permissions.require_operator(self.request.user)
        else:
            permissions.require_part(self.request.user, domain)

    def create_with(self, actor: User, values: dict[str, Any]) -> ChangeSet:
        domain: Domain | None = values.pop("domain")
        if domain is None:
            raise Forbidden("a draft is of a domain")
        return services.draft(actor=actor, domain=domain, **_plain(values))

    def update_with(
        self, actor: User, row: ChangeSet, values: dict[str, Any], version: int | None
    ) -> ChangeSet:
        return services.revise(
            actor=actor, change_set=row, expected_version=version, **_plain(values)
        )

    @extend_schema(request=None, responses=ChangeSetSerializer, filters=False)
    @action(detail=True, methods=["post"], filter_backends=[])
    def plan(self, request: Request, pk: str | None = None) -> Response:
        """Find out what it would do now, and keep that with it."""
        row = self.get_object()
        version = expected_version(request)
        services.plan(actor=request.user, change_set=row, expected_version=version)
        return self.shown(row)

    @extend_schema(request=None, responses={200: ChangeSetSerializer, 202: ChangeSetSerializer})
    @action(detail=True, methods=["post"], filter_backends=[])
    def submit(self, request: Request, pk: str | None = None) -> Response:
        """Apply it as it was planned: at once, or (202) as soon as a second person agrees."""
        row = self.get_object()
        version = expected_version(request)
        services.submit(actor=request.user, change_set=row, expected_version=version)
        return self.shown(row)

    @extend_schema(request=CommentSerializer, responses=ChangeSetSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def approve(self, request: Request, pk: str | None = None) -> Response:
        """Agree as the second person: it is applied at once, or an urgent grant may stay."""
        return self._decide(request, services.approve_any)

    @extend_schema(request=CommentSerializer, responses=ChangeSetSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def reject(self, request: Request, pk: str | None = None) -> Response:
        """Say no, and why."""
        return self._decide(request, services.reject)

    @extend_schema(request=CommentSerializer, responses=ChangeSetSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def undo(self, request: Request, pk: str | None = None) -> Response:
        """Take an urgent grant back at once."""
        return self._decide(request, services.undo_urgent)

    @extend_schema(request=None, responses=ChangeSetSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def withdraw(self, request: Request, pk: str | None = None) -> Response:
        """Let a draft, or one that waits, go."""
        row = self.get_object()
        version = expected_version(request)
        services.withdraw(actor=request.user, change_set=row, expected_version=version)
        return self.shown(row)

    @extend_schema(request=UrgentSerializer, responses={201: ChangeSetSerializer})
    @action(detail=False, methods=["post"], url_path="break-glass", filter_backends=[])
    def break_glass(self, request: Request) -> Response:
        """Grant something at once for a short time; every manager of the domain is told."""
        values = _checked(UrgentSerializer, self, request)
        row = services.break_glass(actor=request.user, **_plain(values))
        return self.shown(row, status.HTTP_201_CREATED)

    @extend_schema(request=RestoreRevisionSerializer, responses={201: ChangeSetSerializer})
    @action(detail=False, methods=["post"], filter_backends=[])
    def restore(self, request: Request) -> Response:
        """Draft the change that brings a domain's model back to an earlier revision."""
        values = _checked(RestoreRevisionSerializer, self, request)
        row = services.restore(actor=request.user, **values)
        return self.shown(row, status.HTTP_201_CREATED)

    def _decide(self, request: Request, decide: Any) -> Response:
        row = self.get_object()
        version = expected_version(request)
        values = _checked(CommentSerializer, self, request)
        decide(
            actor=request.user,
            change_set=row,
            comment=values.get("comment", ""),
            expected_version=version,
        )
        return self.shown(row)


class AnnouncementSerializer(VersionedSerializer):
    """Something that the caller has to hear of."""

    change_set = serializers.IntegerField(source="change_set_id", read_only=True)
    text = serializers.CharField(read_only=True)
    at = serializers.DateTimeField(read_only=True)
    read = serializers.DateTimeField(read_only=True, allow_null=True)


class AnnouncementViewSet(ReadViewSet):
    """What was announced to the caller."""

    serializer_class = AnnouncementSerializer

    def rows(self) -> QuerySet[Any]:
        return selectors.announcements(self.request.user)

    def domain_of(self, row: Announcement) -> Domain | None:
        return row.change_set.domain

    def require_change(self, domain: Domain | None, key: str = "", *, below: str = "") -> None:
        """Everybody reads their own: the list holds no others."""
        if self.request.method in SAFE_METHODS:
            return
        if domain is not None and not permissions.may_view(self.request.user, domain):
            raise Forbidden("this announcement is somebody else's")

    @extend_schema(request=None, responses=AnnouncementSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def read(self, request: Request, pk: str | None = None) -> Response:
        """Note that it was seen."""
        row = services.mark_read(actor=request.user, announcement=self.get_object())
        return self.shown(row)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Serializers give ordered dictionaries; the services take plain ones."""
    if "operations" not in values:
        return values
    return {**values, "operations": [dict(each) for each in values["operations"]]}


def _checked(kind: type[StrictSerializer], view: Any, request: Request) -> dict[str, Any]:
    serializer = kind(data=request.data, context=view.get_serializer_context())
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
