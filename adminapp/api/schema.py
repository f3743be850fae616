"""The OpenAPI document: what every operation of ours has in common."""

from __future__ import annotations

from typing import Any

from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS

from adminapp.api.selection import ACTIONS, PARAMETER, FieldsMixin

PROBLEM = "application/problem+json"
VERSIONED = ("update", "partial_update", "destroy")
_PROBLEMS = {
    "400": "What was sent cannot be accepted; `errors` points at each place.",
    "401": "Not signed in.",
    "403": "Seen, but not yours to change.",
    "404": "No such thing, or not yours to see.",
    "409": "Others stand on it, or it was done before.",
    "412": "It was changed since the version in If-Match.",
    "413": "The body is too large.",
    "415": "This media type is not understood.",
    "422": "The Idempotency-Key was sent before with another request.",
    "428": "If-Match is missing.",
    "503": "A part of the system does not answer; nothing was changed.",
    "429": "Too many calls; Retry-After says how long to wait.",
}


class ProblemDetailSerializer(serializers.Serializer[Any]):
    """One thing that is wrong, and where."""

    pointer = serializers.CharField(help_text="JSON pointer into the body.")
    detail = serializers.CharField(source="message")
    kind = serializers.CharField()
    position = serializers.IntegerField(
        allow_null=True, help_text="Characters from 0 in the field's text."
    )
    suggestion = serializers.CharField(allow_null=True)


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = ProblemDetailSerializer(many=True, required=False)


class DifferenceSerializer(serializers.Serializer[Any]):
    """One field that is not what the caller wants it to be."""

    pointer = serializers.CharField(help_text="JSON pointer into the body.")
    yours = serializers.JSONField(help_text="What was sent.", allow_null=True)
    theirs = serializers.JSONField(help_text="What it is now.", allow_null=True)


class StaleProblemSerializer(ProblemSerializer):
    """A problem that shows what the object has become."""

    current = serializers.JSONField(required=False, help_text="The object as it is now.")
    changes = DifferenceSerializer(many=True, required=False)


class AwaitingSerializer(serializers.Serializer[Any]):
    """The change was kept as a change set, until a second person decides."""

    change_set = serializers.IntegerField()
    domain = serializers.CharField()
    state = serializers.CharField()
    detail = serializers.CharField()


class TokenScheme(OpenApiAuthenticationExtension):
    """How bearer tokens appear in the document."""

    target_class = "adminapp.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "pct_..."}


class SessionOnlyScheme(SessionScheme):
    """A session where nothing else will do."""

    target_class = "adminapp.api.authentication.SessionOnly"
    name = "session"


class Schema(AutoSchema):
    """Adds preconditions, idempotency keys and problems to every operation."""

    def get_override_parameters(self) -> list[OpenApiParameter]:
        parameters = list(super().get_override_parameters())
        if self._changes_a_version():
            parameters.append(_header("If-Match", "The version that is changed, from its ETag."))
        if self.method == "POST":
            parameters.append(
                _header("Idempotency-Key", "Sent again within a day: one deed, one answer.", False)
            )
        if self._chooses_fields():
            parameters.append(self._fields())
        return parameters

    def get_tags(self) -> list[str]:
        return [getattr(self.view, "basename", None) or "schema"]

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            for code in self._possible_problems():
                operation["responses"].setdefault(code, self._problem(code))
            if self.method not in SAFE_METHODS:
                operation["responses"].setdefault("202", self._awaiting())
            if self._chooses_fields():
                self._allow_parts(operation["responses"]["200"])
        return operation

    def _changes_a_version(self) -> bool:
        action = getattr(self.view, "action", None)
        return action in (*VERSIONED, *getattr(self.view, "versioned_actions", ()))

    def _possible_problems(self) -> list[str]:
        codes = ["400", "401", "403", "404", "429"]
        if self.method not in SAFE_METHODS:
            codes += ["409", "412", "413", "415", "503"]
        if self.method == "POST":
            codes.append("422")
        if self._changes_a_version():
            codes.append("428")
        return sorted(set(codes))

    def _chooses_fields(self) -> bool:
        return isinstance(self.view, FieldsMixin) and self.view.action in ACTIONS

    def _allow_parts(self, response: dict[str, Any]) -> None:
        """With `?fields=` an object may lack what is required of it otherwise."""
        for content in response.get("content", {}).values():
            if "$ref" not in content["schema"]:
                continue
            whole = self._component(content["schema"])
            page = whole.schema["properties"].get("results")
            if self.view.action != "list" or page is None:
                content["schema"] = self._whole_or_part(content["schema"])
            elif "$ref" in page["items"]:
                page["items"] = self._whole_or_part(page["items"])

    def _whole_or_part(self, ref: dict[str, Any]) -> dict[str, Any]:
        whole = self._component(ref)
        schema = {name: each for name, each in whole.schema.items() if name != "required"}
        schema["description"] = "With `fields`: those that were chosen."
        part = ResolvedComponent(
            name=f"Chosen{whole.name}",
            type=ResolvedComponent.SCHEMA,
            object=f"Chosen{whole.name}",
            schema=schema,
        )
        self.registry.register_on_missing(part)
        return {"anyOf": [ref, part.ref]}

    def _component(self, ref: dict[str, Any]) -> ResolvedComponent:
        key = ref["$ref"].rsplit("/", 1)[1], ResolvedComponent.SCHEMA
        found: ResolvedComponent = self.registry._components[key]
        return found

    def _awaiting(self) -> dict[str, Any]:
        component = self.resolve_serializer(AwaitingSerializer, "response")
        return {
            "description": "The domain asks a second person; Location is the change set.",
            "content": {"application/json": {"schema": component.ref}},
        }

    def _fields(self) -> OpenApiParameter:
        serializer = self._get_serializer()
        names = [name for name, each in serializer.fields.items() if not each.write_only]
        return OpenApiParameter(
            PARAMETER,
            {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1},
            style="form",
            explode=False,
            description="Names of fields, separated by commas; all when left out.",
        )

    def _problem(self, code: str) -> dict[str, Any]:
        shape = StaleProblemSerializer if code == "412" else ProblemSerializer
        component = self.resolve_serializer(shape, "response")
        return {
            "description": _PROBLEMS[code],
            "content": {PROBLEM: {"schema": component.ref}},
        }


def _header(name: str, description: str, required: bool = True) -> OpenApiParameter:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, required=required, description=description
    )


def loosen_nulls(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Of two alternatives that both allow null, `oneOf` would allow none."""
    _loosen(result["components"].get("schemas", {}))
    return result


def _loosen(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            _loosen(each)
    elif isinstance(schema, dict):
        if {"type": "null"} in schema.get("oneOf", ()):
            schema["anyOf"] = schema.pop("oneOf")
        for each in schema.values():
            _loosen(each)
