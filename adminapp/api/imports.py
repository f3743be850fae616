"""Imports of principals: the file comes in, a job works on it, a report says what was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import IO, Any

import django_filters as filters
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import Parameters, ReadViewSet, StrictSerializer, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.problems import TooLarge
from adminapp.identity import selectors, services
from adminapp.identity.csvfile import Refusal, report_lines
from adminapp.identity.imports import refusals
from adminapp.identity.models import PrincipalImport

CHUNK = 1 << 20


class CsvParser(BaseParser):
    """Hands the stream on unread."""

    media_type = "text/csv"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> IO[bytes]:
        return stream


class ImportQuery(StrictSerializer):
    """What to do with the file."""

    domain = DomainField()
    mode = serializers.ChoiceField(
        PrincipalImport.Mode.choices,
        default=PrincipalImport.Mode.ALL,
        help_text="When a row is refused: `all` writes nothing, `valid` writes the others.",
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only check the file.")


class ImportSerializer(VersionedSerializer):
    """An import and how far it is."""

    domain = serializers.CharField(source="domain.name", read_only=True)
    user = serializers.CharField(source="user.username", read_only=True, default=None)
    mode = serializers.ChoiceField(PrincipalImport.Mode.choices, read_only=True)
    dry_run = serializers.BooleanField(read_only=True)
    state = serializers.ChoiceField(PrincipalImport.State.choices, read_only=True)
    rows_total = serializers.IntegerField(read_only=True, help_text="An estimate until all is read")
    rows_done = serializers.IntegerField(read_only=True)
    rows_refused = serializers.IntegerField(read_only=True)
    rows_written = serializers.IntegerField(read_only=True)
    error = serializers.CharField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    started = serializers.DateTimeField(read_only=True, allow_null=True)
    finished = serializers.DateTimeField(read_only=True, allow_null=True)


class ImportFilter(DomainFilter):
    state = filters.ChoiceFilter(choices=PrincipalImport.State.choices)


class PrincipalImportViewSet(ReadViewSet):
    """Imports of principals from CSV files."""

    serializer_class = ImportSerializer
    filterset_class = ImportFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.imports(self.request.user)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "layout", str, enum=["jsonl", "csv"], description="`jsonl` unless said otherwise."
            )
        ],
        responses={
            (200, "application/jsonl"): OpenApiTypes.STR,
            (200, "text/csv"): OpenApiTypes.STR,
        },
        filters=False,
    )
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def report(self, request: Request, pk: str | None = None) -> StreamingHttpResponse:
        """What was refused: line (the header is 1), column and reason of each."""
        job = self.get_object()
        table = request.query_params.get("layout") == "csv"
        lines = report_lines(refusals(job)) if table else _objects(refusals(job))
        kind, ending = ("text/csv", "csv") if table else ("application/jsonl", "jsonl")
        answer = StreamingHttpResponse(lines, content_type=f"{kind}; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="import-{job.pk}.{ending}"'
        return answer

    @extend_schema(request=None, responses=ImportSerializer, filters=False)
    @action(detail=True, methods=["post"], pagination_class=None, filter_backends=[])
    def cancel(self, request: Request, pk: str | None = None) -> Response:
        """Stop it; once it writes it can no longer be stopped."""
        return self.shown(services.cancel_import(actor=request.user, job=self.get_object()))


class ImportMixin:
    """POST of a file with principals."""

    @extend_schema(
        parameters=[ImportQuery],
        request={
            "text/csv": OpenApiTypes.STR,
            "multipart/form-data": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
                "required": ["file"],
            },
        },
        responses={202: OpenApiResponse(ImportSerializer, description="It is worked on.")},
        filters=False,
    )
    @action(
        detail=False,
        methods=["post"],
        url_path="import",
        url_name="import",
        parser_classes=[CsvParser, MultiPartParser],
        pagination_class=None,
        filter_backends=[],
        upload_limit=settings.IMPORT_LIMIT + 64 * 1024,  # the borders of a multipart body
    )
    def import_file(self: Any, request: Request) -> Response:
        """Principals from a CSV file, in one change."""
        query = ImportQuery(data=Parameters.of(request), context=self.get_serializer_context())
        query.is_valid(raise_exception=True)
        self.require_change(query.validated_data["domain"])
        job = services.start_import(
            actor=request.user, chunks=_bounded(_chunks(request)), **query.validated_data
        )
        shown = ImportSerializer(selectors.imports(request.user).get(pk=job.pk)).data
        answer = Response(shown, status=status.HTTP_202_ACCEPTED)
        answer["Location"] = reverse("api:principal-imports-detail", args=[job.pk])
        return answer


def _chunks(request: Request) -> Iterator[bytes]:
    body = request.data
    if not hasattr(body, "read"):
        file = body.get("file")
        if not isinstance(file, UploadedFile):
            raise ParseError("send the file as `file`")
        yield from file.chunks(CHUNK)
        return
    while chunk := body.read(CHUNK):
        yield chunk


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > settings.IMPORT_LIMIT:
            raise TooLarge
        yield chunk


def _objects(found: Iterator[Refusal]) -> Iterator[str]:
    for each in found:
        yield json.dumps(asdict(each), ensure_ascii=False) + "\n"
