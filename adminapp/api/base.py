"""What every area of the API has in common: read through selectors, change through services."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from rest_framework import mixins, serializers, status
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.api import idempotency
from adminapp.api.problems import VersionMissing
from adminapp.api.selection import FieldsMixin
from adminapp.api.stale import outdated
from adminapp.api.throttling import CountedMixin, count_call
from adminapp.core.errors import Conflict, Invalid, Problem
from adminapp.identity import permissions
from adminapp.identity.models import Domain


class Parameters(dict[str, Any]):
    """What an address asks for: nothing but text, and lists of it."""

    @classmethod
    def of(cls, request: Request, many: Collection[str] = ()) -> Parameters:
        """The last value of each parameter, and every value of those that may come often."""
        sent = request.query_params
        return cls({name: sent.getlist(name) if name in many else sent[name] for name in sent})


class StrictSerializer(serializers.Serializer):
    """Refuses fields that it does not know: a misspelt one would otherwise be lost in silence.

    Fields that are only read are passed over, so that what was read can be sent back.
    """

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(name) for name in set(data) - set(self.fields))
            if unknown:
                raise serializers.ValidationError(
                    {name: [f"there is no field `{name}`"] for name in unknown}
                )
            if not isinstance(data, QueryDict | Parameters):  # which are text throughout
                self._refuse_other_kinds(data)
        return super().to_internal_value(data)

    def _refuse_other_kinds(self, data: Mapping[str, Any]) -> None:
        """A number is no text and a text no number; the framework would make one of the other."""
        wrong = {
            name: [f"must be {kind}"]
            for name, field in self.fields.items()
            if name in data and not field.read_only
            for kind in [_other_kind(field, data[name])]
            if kind
        }
        if wrong:
            raise serializers.ValidationError(wrong)


_KINDS: list[tuple[type[serializers.Field[Any, Any, Any, Any]], type, str]] = [
    (serializers.CharField, str, "a text"),
    (serializers.IntegerField, int, "a whole number"),
    (serializers.BooleanField, bool, "true or false"),
]


def _other_kind(field: Any, value: Any) -> str | None:
    """What a field's value must be, where it is of another kind; lists and maps say it themselves.

    JSON has one kind of number: 3.0 is whole, and true is none.
    """
    if isinstance(field, serializers.ListField):
        inner = value if isinstance(value, list) else []
        return next(
            (f"a list, each {kind}" for one in inner if (kind := _other_kind(field.child, one))),
            None,
        )
    for kind, wanted, said in _KINDS:
        if isinstance(field, kind) and value is not None:
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            return None if type(value) is wanted else said
    return None


class VersionedSerializer(StrictSerializer):
    """Identifier and version, as every object has them."""

    id = serializers.IntegerField(read_only=True)
    version = serializers.IntegerField(
        read_only=True, help_text="Send it back in If-Match to change this version."
    )


def expected_version(request: Request) -> int | None:
    """The version that a change is based on, from If-Match; None for `*`.

    Raises:
        VersionMissing: there is no If-Match.
        Conflict: it names no version of ours.
    """
    header = request.headers.get("If-Match")
    if not header:
        raise VersionMissing
    text = header.strip()
    if text == "*":
        return None
    digits = text.removeprefix("W/").strip('"')
    if not digits.isdecimal():
        raise Conflict("If-Match names no version of this object", expected=None, current=None)
    return int(digits)


class ReadViewSet(
    idempotency.OnceMixin,
    CountedMixin,
    FieldsMixin,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    GenericViewSet,
):
    """Lists and single objects, limited to what the caller may see.

    `kind` names the objects where parts of a domain can be delegated: those to whom an object is
    delegated may then change it as managers do. `versioned_actions` are POSTs that need If-Match.
    """

    kind = ""
    versioned_actions: tuple[str, ...] = ()

    def rows(self) -> QuerySet[Any]:
        """The rows that the caller may see, with what the serializer needs."""
        raise NotImplementedError

    def get_queryset(self) -> QuerySet[Any]:
        return self.rows()

    def domain_of(self, row: Any) -> Domain | None:
        """Whose row it is; None is the platform's."""
        return getattr(row, "domain", None)

    def get_object(self) -> Any:
        """The row of the address. Who may see it and not change it gets a 403, others a 404."""
        row = super().get_object()
        domain = self.domain_of(row)
        if domain is not None:
            count_call(self.request, domain)
        if self.request.method not in SAFE_METHODS:
            self.require_change(domain, self.key_of(row))
        return row

    def key_of(self, row: Any) -> str:
        """The object's natural name, by which it is delegated."""
        return str(getattr(row, "name", row))

    def handle_exception(self, error: Exception) -> Response:
        """Who comes too late is shown what the object has become."""
        return super().handle_exception(
            outdated(self, error) if isinstance(error, Conflict) else error
        )

    def require_change(self, domain: Domain | None, key: str = "", *, below: str = "") -> None:
        """Raises Forbidden unless the caller may change the object `key` of the domain."""
        user = self.request.user
        if domain is None:
            permissions.require_operator(user)
        elif self.kind:
            permissions.require_change(user, domain, self.kind, key, below=below)
        else:
            permissions.require_manager(user, domain)

    def shown(self, row: Any, code: int = status.HTTP_200_OK) -> Response:
        """One object, freshly read, with its version as ETag."""
        fresh = self.get_queryset().get(pk=row.pk)
        response = Response(self.get_serializer(fresh).data, status=code)
        self._tag(response, fresh)
        return response

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.shown(self.get_object())

    def _tag(self, response: Response, row: Any) -> None:
        if hasattr(row, "version"):
            response["ETag"] = f'"{row.version}"'

    def location(self, row: Any) -> str:
        return reverse(f"api:{self.basename}-detail", args=[row.pk])


class CreateMixin:
    """POST: a service makes the object."""

    def create_with(self, actor: Any, values: dict[str, Any]) -> Any:
        """Call the service; returns the new row."""
        raise NotImplementedError

    def create(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        row = self.create_with(request.user, dict(serializer.validated_data))
        response = self.shown(row, status.HTTP_201_CREATED)
        response["Location"] = self.location(row)
        return response


class UpdateMixin:
    """PUT and PATCH: a service changes the version that If-Match names."""

    fixed: tuple[str, ...] = ("domain", "name")

    def update_with(self, actor: Any, row: Any, values: dict[str, Any], version: int | None) -> Any:
        """Call the service; returns the row."""
        raise NotImplementedError

    def update(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._update(request, partial=False)

    def partial_update(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._update(request, partial=True)

    def _update(self: Any, request: Request, *, partial: bool) -> Response:
        row = self.get_object()
        version = expected_version(request)
        serializer = self.get_serializer(row, data=request.data, partial=partial)
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        self._refuse_fixed(row, values)
        return self.shown(self.update_with(request.user, row, values, version))

    def _refuse_fixed(self, row: Any, values: dict[str, Any]) -> None:
        """Fields that never change may be sent back as they are, and are then passed over."""
        problems = [
            Problem(f"/{name}", f"`{name}` cannot be changed")
            for name in self.fixed
            if name in values and values.pop(name) != getattr(row, name)
        ]
        if problems:
            raise Invalid(problems)


class DeleteMixin:
    """DELETE: a service removes the version that If-Match names."""

    def delete_with(self, actor: Any, row: Any, version: int | None) -> None:
        """Call the service."""
        raise NotImplementedError

    def destroy(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        row = self.get_object()
        self.delete_with(request.user, row, expected_version(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ServiceViewSet(CreateMixin, UpdateMixin, DeleteMixin, ReadViewSet):
    """All of it."""
