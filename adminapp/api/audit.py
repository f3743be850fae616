"""The audit: who did what, proofs that nothing of it was changed, and the whole of it as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import ReadViewSet
from adminapp.api.pagination import Cursor
from adminapp.api.permissions import Operator
from adminapp.audit import exporting, selectors, verification
from adminapp.audit.models import SOURCES
from adminapp.identity import selectors as identity

NDJSON = "application/x-ndjson"
MAX_PROBLEMS = 1000


class NewestFirst(Cursor):
    ordering = "-sequence"


class LargestFirst(Cursor):
    ordering = "-size"


class EntrySerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    source = serializers.ChoiceField(SOURCES)
    change_set = serializers.IntegerField(allow_null=True)
    action = serializers.CharField()
    domain = serializers.CharField(source="domain_name")
    object_type = serializers.CharField()
    object_id = serializers.CharField()
    object_name = serializers.CharField(help_text="`[erased]` once its person was erased.")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    person = serializers.CharField(
        source="person.pseudonym", default=None, allow_null=True, help_text="Whom it speaks of."
    )
    erased = serializers.BooleanField()
    leaf = serializers.CharField(help_text="RFC 6962 hash of the entry, hexadecimal.")


class ChainProblemSerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    last = serializers.IntegerField()
    kind = serializers.ChoiceField(verification.KINDS)
    message = serializers.CharField()


class ChainSerializer(serializers.Serializer[Any]):
    whole = serializers.BooleanField()
    size = serializers.IntegerField(help_text="Entries that were read.")
    checkpoints = serializers.IntegerField(help_text="Checkpoints that hold.")
    problems = ChainProblemSerializer(many=True)
    unchecked = serializers.ListField(child=serializers.CharField())


class CheckpointSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField()
    root = serializers.CharField(help_text="Root of the Merkle tree, hexadecimal.")
    at = serializers.DateTimeField()
    note = serializers.CharField(help_text="The signed checkpoint (C2SP tlog-checkpoint).")


class TreeSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField()
    root = serializers.CharField()
    checkpoint = CheckpointSerializer(allow_null=True)


class InclusionSerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    index = serializers.IntegerField(help_text="The leaf's place in the tree, from 0.")
    size = serializers.IntegerField()
    leaf = serializers.CharField()
    root = serializers.CharField()
    path = serializers.ListField(child=serializers.CharField())


class ConsistencySerializer(serializers.Serializer[Any]):
    old_size = serializers.IntegerField()
    new_size = serializers.IntegerField()
    old_root = serializers.CharField()
    new_root = serializers.CharField()
    path = serializers.ListField(child=serializers.CharField())


class SizeQuery(serializers.Serializer[Any]):
    size = serializers.IntegerField(required=False, min_value=1)


class RangeQuery(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, Any]:
        # `from` is no name that Python lets a class have.
        return {
            "from": serializers.IntegerField(min_value=0),
            "to": serializers.IntegerField(required=False, min_value=0),
        }


class EntryFilter(filters.FilterSet):
    domain = filters.CharFilter(field_name="domain_name", help_text="Name of the domain.")
    actor = filters.CharFilter(field_name="actor__name", help_text="Who did it.")
    action = filters.CharFilter(help_text="What was done, such as `policy.updated`.")
    object_type = filters.CharFilter()
    object_id = filters.CharFilter()
    object_name = filters.CharFilter(
        method="by_object_name", help_text="The object's natural name; persons' as it is now."
    )
    person = filters.CharFilter(
        method="by_person", help_text="Whom it speaks of: handle, `u-` and number, or name now."
    )
    source = filters.ChoiceFilter(choices=[(name, name) for name in SOURCES])
    change_set = filters.NumberFilter(min_value=1, max_value=2**63 - 1, decimal_places=0)
    text = filters.CharFilter(
        method="by_text", help_text="Words in the name of object, action, actor or person."
    )
    since = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    until = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")

    def by_object_name(self, queryset: Any, _name: str, value: str) -> Any:
        persons = identity.pseudonyms(self.request.user, named=value)
        return queryset.filter(selectors.called(value, persons))

    def by_person(self, queryset: Any, _name: str, value: str) -> Any:
        persons = identity.pseudonyms(self.request.user, named=value)
        return queryset.filter(person__pseudonym__in=[value, *persons])

    def by_text(self, queryset: Any, _name: str, value: str) -> Any:
        persons = identity.pseudonyms(self.request.user, like=value)
        return queryset.filter(selectors.words(value, persons))


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
    @action(
        detail=False,
        methods=["get"],
        permission_classes=[Operator],
        filter_backends=[],
        pagination_class=None,
    )
    def chain(self, request: Request) -> Response:
        """Whether the audit is whole, and what was done to it if not; reads all, for operators."""
        report = verification.verify_with_authority()
        answer = {
            "whole": not report.problems,
            "size": report.size,
            "checkpoints": report.checkpoints,
            "problems": report.problems[:MAX_PROBLEMS],
            "unchecked": report.unchecked,
        }
        return Response(ChainSerializer(answer).data)

    @extend_schema(responses=TreeSerializer, filters=False)
    @action(detail=False, methods=["get"], filter_backends=[], pagination_class=None)
    def tree(self, request: Request) -> Response:
        """Number of entries, root of the tree over them, and the last signed checkpoint."""
        return Response(TreeSerializer(selectors.state()).data)

    @extend_schema(responses=CheckpointSerializer(many=True), filters=False)
    @action(detail=False, methods=["get"], filter_backends=[], pagination_class=LargestFirst)
    def checkpoints(self, request: Request) -> Response:
        """What the trusted authority signed about the log, the newest first."""
        page = self.paginate_queryset(selectors.checkpoints())
        return self.get_paginated_response(CheckpointSerializer(page, many=True).data)

    @extend_schema(
        responses=InclusionSerializer,
        filters=False,
        parameters=[
            OpenApiParameter(
                "size", int, description="Of the tree to prove it for; all of it when left out."
            )
        ],
    )
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def proof(self, request: Request, sequence: int) -> Response:
        """That the entry stands in the log: the audit path of RFC 6962."""
        query = SizeQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        size = query.validated_data.get("size")
        return Response(InclusionSerializer(selectors.inclusion(self.get_object(), size=size)).data)

    @extend_schema(
        responses=ConsistencySerializer,
        filters=False,
        parameters=[
            OpenApiParameter("from", int, required=True, description="Entries then."),
            OpenApiParameter("to", int, description="Entries later; all when left out."),
        ],
    )
    @action(detail=False, methods=["get"], filter_backends=[], pagination_class=None)
    def consistency(self, request: Request) -> Response:
        """That the log of `to` entries only adds to the log of `from` entries."""
        query = RangeQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        found = selectors.consistency(old=wanted["from"], new=wanted.get("to"))
        return Response(ConsistencySerializer(found).data)

    @extend_schema(
        responses={
            (200, NDJSON): OpenApiResponse(
                OpenApiTypes.STR, description="An entry a line, oldest first; last the checkpoint."
            )
        },
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def export(self, request: Request) -> StreamingHttpResponse:
        """All entries that fit, as lines of JSON, and the last signed checkpoint after them."""
        found = self.filter_queryset(self.get_queryset())
        response = StreamingHttpResponse(_lines(found), content_type=NDJSON)
        response["Content-Disposition"] = 'attachment; filename="audit.jsonl"'
        return response


def _lines(found: QuerySet[Any]) -> Iterator[str]:
    for document in exporting.documents(found):
        yield json.dumps(document, ensure_ascii=False, sort_keys=True) + "\n"
