"""What a query may ask for: `?fields=a,b` narrows the answer, unknown names are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import django_filters as filters
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, QuerySet
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS

from adminapp.core.errors import Invalid, Problem

PARAMETER = "fields"
ACTIONS = ("list", "retrieve")
WHOLE = re.compile(r"-?[0-9]{1,18}")
TRUTH = ("true", "false")
CURSOR = ("cursor", "limit")


class FieldsMixin:
    """Lets the caller of a list or a single object choose its fields.

    A query with a name that means nothing is refused: a misspelt filter would otherwise find
    everything. `query_parameters` names what a view reads beside its filters.
    """

    query_parameters: tuple[str, ...] = ()

    def initial(self: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        if request.method in SAFE_METHODS and self.action in ACTIONS:
            _refuse_unknown(request.query_params, {PARAMETER, *self._parameters()})
            _refuse_unclear(request.query_params, self._filters())

    def _parameters(self: Any) -> Iterator[str]:
        yield from self.query_parameters
        if self.action == "list":
            yield from self._filters()
            yield from CURSOR if self.paginator else ()

    def _filters(self: Any) -> Mapping[str, filters.Filter]:
        found = getattr(self, "filterset_class", None) if self.action == "list" else None
        return found.base_filters if found else {}

    def chosen_fields(self: Any) -> list[str] | None:
        """The names that were asked for; None is all."""
        request = self.request
        if request is None or request.method not in SAFE_METHODS or self.action not in ACTIONS:
            return None
        text = request.query_params.get(PARAMETER)
        if text is None:
            return None
        return [name.strip() for name in text.split(",")]

    def get_serializer(self: Any, *args: Any, **kwargs: Any) -> Any:
        serializer = super().get_serializer(*args, **kwargs)  # type: ignore[misc]
        chosen = self.chosen_fields()
        if chosen is not None:
            _keep(serializer, chosen)
        return serializer

    def filter_queryset(self: Any, queryset: Any) -> Any:
        found = super().filter_queryset(queryset)  # type: ignore[misc]
        chosen = self.chosen_fields()
        return found if chosen is None else self._narrowed(found, chosen)

    def _narrowed(self: Any, queryset: Any, chosen: list[str]) -> Any:
        """Read the columns that are shown and no others, where every one is a plain column."""
        serializer = self.get_serializer()
        columns = [_column(queryset, serializer.fields[name]) for name in chosen]
        if not isinstance(queryset, QuerySet) or None in columns:
            return queryset
        order = getattr(self.pagination_class, "ordering", "pk")
        ordered = [order] if isinstance(order, str) else list(order)
        needed = {"pk", *columns, *(name.lstrip("-") for name in ordered)}
        return queryset.select_related(None).prefetch_related(None).only(*sorted(needed))


def _refuse_unknown(query: Iterable[str], known: set[str]) -> None:
    unknown = [name for name in query if name not in known]
    if unknown:
        raise Invalid(
            Problem(f"/{name}", f"there is no parameter `{name}` here", "unknown")
            for name in unknown
        )


def _refuse_unclear(query: Mapping[str, str], known: Mapping[str, filters.Filter]) -> None:
    """django-filter passes over what is no truth value, an empty choice and a number's size."""
    problems = []
    for name in set(query) & set(known):
        if isinstance(known[name], filters.BooleanFilter) and query[name] not in TRUTH:
            problems.append(Problem(f"/{name}", "say `true` or `false`"))
        elif isinstance(known[name], filters.NumberFilter) and not WHOLE.fullmatch(query[name]):
            problems.append(Problem(f"/{name}", "say a whole number"))
        elif isinstance(known[name], filters.ChoiceFilter) and not query[name]:
            problems.append(Problem(f"/{name}", "name one of the choices, or leave it out"))
    if problems:
        raise Invalid(problems)


def _keep(serializer: Any, chosen: list[str]) -> None:
    fields = getattr(serializer, "child", serializer).fields
    readable = {name for name, field in fields.items() if not field.write_only}
    unknown = [name for name in dict.fromkeys(chosen) if name not in readable]
    if unknown:
        raise Invalid(
            Problem(f"/{PARAMETER}", f"there is no field `{name}`", "unknown") for name in unknown
        )
    for name in set(fields) - set(chosen):
        fields.pop(name)


def _column(queryset: Any, field: serializers.Field[Any, Any, Any, Any]) -> str | None:
    """The column that a field shows as it is, or None."""
    model = getattr(queryset, "model", None)
    if model is None or isinstance(field, serializers.BaseSerializer):
        return None
    source = field.source or field.field_name
    try:
        found = model._meta.get_field(source)
    except (FieldDoesNotExist, TypeError):
        return None
    return source if isinstance(found, Field) and not found.is_relation else None
