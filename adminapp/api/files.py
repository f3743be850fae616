"""Policy as code: export, plan and apply multi-document YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from adminapp.api import idempotency
from adminapp.api.base import Parameters, StrictSerializer
from adminapp.api.problems import TooLarge
from adminapp.api.schema import PROBLEM, ProblemDetailSerializer, ProblemSerializer
from adminapp.api.throttling import CountedMixin
from adminapp.changes import files
from adminapp.core.errors import Invalid
from adminapp.identity import permissions, selectors

YAML = "application/yaml"
_REFUSED = {
    (code, PROBLEM): ProblemSerializer for code in (400, 401, 403, 404, 406, 412, 413, 415, 429)
}


class YamlParser(BaseParser):
    """The body as it is; the reader of files checks it."""

    media_type = YAML

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> list[tuple[str, bytes]]:
        raw = stream.read(settings.UPLOAD_LIMIT + 1)
        if len(raw) > settings.UPLOAD_LIMIT:
            raise TooLarge
        return [("body", raw)]


class YamlRenderer(BaseRenderer):
    """Text that is YAML already; problems stay the JSON that they are."""

    media_type = YAML
    format = "yaml"
    charset = "utf-8"

    def render(self, data: Any, *_: Any, **__: Any) -> bytes:
        return data.encode() if isinstance(data, str) else JSONRenderer().render(data)


class PlannedDifferenceSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="JSON pointer into the object's document.")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class PlannedChangeSerializer(serializers.Serializer[Any]):
    """One object that would be made, changed or removed."""

    domain = serializers.CharField(help_text="Empty for the platform's.")
    kind = serializers.CharField()
    key = serializers.CharField()
    op = serializers.ChoiceField(["create", "update", "delete"])
    diff = PlannedDifferenceSerializer(many=True)


class FilesAnswerSerializer(serializers.Serializer[Any]):
    """What files would do, or did."""

    changes = PlannedChangeSerializer(many=True)
    effects = serializers.DictField(
        help_text="Access won and lost, subscriptions that end, keys, agents, encodings."
    )
    findings = serializers.ListField(
        child=serializers.DictField(),
        help_text="What is worth a second look about policies: domain, policy, kind, message.",
    )
    problems = ProblemDetailSerializer(many=True)
    revisions = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Revision of each domain; send it back as `expect` to refuse a stale plan.",
    )
    change_sets = serializers.ListField(child=serializers.IntegerField())
    unchanged = serializers.IntegerField()
    pending = serializers.BooleanField(help_text="Whether anything is left to be done.")


class ExportQuerySerializer(StrictSerializer):
    domain = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, max_length=1000
    )
    platform = serializers.BooleanField(required=False, default=False)


class FilesQuerySerializer(StrictSerializer):
    partial = serializers.BooleanField(required=False, default=True)
    message = serializers.CharField(required=False, allow_blank=True, max_length=500, default="")
    expect = serializers.ListField(
        child=serializers.RegexField(r"\A[a-z0-9-]{1,64}:[0-9]{1,18}\Z"),
        required=False,
        max_length=1000,
        default=list,
    )


def _parameters() -> list[OpenApiParameter]:
    return [
        OpenApiParameter(
            "partial",
            bool,
            description="False deletes what the files leave out of the domains they describe.",
        ),
        OpenApiParameter("message", str, description="Why."),
        OpenApiParameter(
            "expect",
            str,
            many=True,
            description="`domain:revision` of the plan; another revision is refused with 412.",
        ),
    ]


class ExportView(CountedMixin, APIView):
    """Domains as files."""

    renderer_classes = [YamlRenderer, JSONRenderer]

    @extend_schema(
        operation_id="export_retrieve",
        tags=["files"],
        parameters=[
            OpenApiParameter(
                "domain", str, many=True, description="Names of domains; all of one's own if not."
            ),
            OpenApiParameter("platform", bool, description="Overlays and agents too (operators)."),
        ],
        responses={(200, YAML): OpenApiTypes.STR, **_REFUSED},
    )
    def get(self, request: Request) -> HttpResponse:
        """The model of domains as multi-document YAML; the same model gives the same bytes."""
        query = _query(ExportQuerySerializer, request, {"domain"})
        if query["platform"]:
            permissions.require_operator(request.user)
        rows = selectors.domains(request.user)
        names = query.get("domain")
        if names is not None:
            known = set(rows.values_list("name", flat=True))
            for index, name in enumerate(names):
                if name not in known:
                    raise Invalid.at(f"/domain/{index}", f"there is no domain `{name}`", "unknown")
            rows = rows.filter(name__in=names)
        text = files.export(rows, platform=query["platform"])
        return HttpResponse(text.encode(), content_type=f"{YAML}; charset=utf-8")


class _FilesView(idempotency.OnceMixin, CountedMixin, APIView):
    parser_classes = [YamlParser, MultiPartParser]

    def read(self, request: Request) -> tuple[list[tuple[str, bytes]], dict[str, Any]]:
        """The files of the request and its query."""
        query = _query(FilesQuerySerializer, request, {"expect"})
        if isinstance(request.data, list):
            return request.data, query
        found = [
            (each.name or name, each.read())
            for name, held in request.FILES.lists()
            for each in held
        ]
        if not found:
            raise Invalid.at("", "send one file at least", "missing")
        return found, query


class PlanView(_FilesView):
    write_scope = "read"  # nothing is written: a token that reads may rehearse

    @extend_schema(
        operation_id="plan_create",
        tags=["files"],
        parameters=_parameters(),
        request={YAML: OpenApiTypes.STR, "multipart/form-data": OpenApiTypes.OBJECT},
        responses={200: FilesAnswerSerializer, **_REFUSED},
    )
    def post(self, request: Request) -> Response:
        """What applying files would do; nothing is written."""
        found, query = self.read(request)
        plan = files.plan(actor=request.user, files=found, partial=query["partial"])
        body = {**plan.to_json(), "change_sets": [], "unchanged": plan.unchanged}
        return Response({**body, "pending": bool(plan.changes or plan.problems)})


class ApplyView(_FilesView):
    @extend_schema(
        operation_id="apply_create",
        tags=["files"],
        parameters=_parameters(),
        request={YAML: OpenApiTypes.STR, "multipart/form-data": OpenApiTypes.OBJECT},
        responses={200: FilesAnswerSerializer, 202: OpenApiTypes.OBJECT, **_REFUSED},
    )
    def post(self, request: Request) -> Response:
        """Bring the model in line with files: everything or nothing."""
        found, query = self.read(request)
        expected = dict(each.rsplit(":", 1) for each in query["expect"])
        done = files.apply(
            actor=request.user,
            files=found,
            partial=query["partial"],
            message=query["message"],
            expected={name: int(text) for name, text in expected.items()},
        )
        body = {
            **done.plan.to_json(),
            "change_sets": sorted(done.change_sets.values()),
            "unchanged": done.unchanged,
            "pending": False,
        }
        return Response(body, status=status.HTTP_200_OK)


def _query(kind: type[StrictSerializer], request: Request, many: set[str]) -> dict[str, Any]:
    serializer = kind(data=Parameters.of(request, many))
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
